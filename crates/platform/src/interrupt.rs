//! Handling of SIGINT and SIGTERM: the first signal requests a stop, the second one forces it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The exit code that a shell reports for a process that Ctrl-C ended.
const EXIT_CODE: i32 = 130;

/// Installs a handler by which SIGINT and SIGTERM set the returned flag; a second signal ends the
/// process at once with exit code 130.
pub fn install_interrupt_handler() -> Arc<AtomicBool> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first action reads the flag before the second one sets it.
        flag::register_conditional_shutdown(signal, EXIT_CODE, Arc::clone(&is_interrupted))
            .and_then(|_| flag::register(signal, Arc::clone(&is_interrupted)))
            .expect("SIGINT and SIGTERM can be handled");
    }
    is_interrupted
}
