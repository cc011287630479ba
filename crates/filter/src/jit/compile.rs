//! Compilation of a condition to machine code: the loop around it, and the memory that holds it.

#![expect(unsafe_code, reason = "machine code has no borrow checker")]

use std::ops::Range;
use std::sync::Mutex;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Value};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};

use super::emit::Emitter;
use super::{Argument, ColumnShape};
use crate::interpret::Node;

/// The signature of the code: columns, constants, first row, end of rows and output; not 0 if some
/// row may fail.
type Code = unsafe extern "C" fn(*const Argument, *const u64, u64, u64, *mut u64) -> u64;

/// Machine code of a shape. Dropping it frees the code.
pub(super) struct Compiled {
    code: Code,
    /// The owner of the memory of the code; taken when it is freed.
    module: Mutex<Option<JITModule>>,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compiled")
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let module = self.module.get_mut().ok().and_then(Option::take);
        if let Some(module) = module {
            // SAFETY: the only pointer to the code is in `self`, and no other reference to `self`
            // exists any more.
            unsafe { module.free_memory() }
        }
    }
}

impl Compiled {
    /// Runs the code. Returns false if some row may fail (jit-3).
    ///
    /// # Safety
    /// The arguments and constants are those of the shape (jit-1), the columns have the rows, and
    /// `out` has a word for each 64 of them (jit-2).
    pub(super) unsafe fn call(
        &self,
        arguments: &[Argument],
        constants: &[u64],
        rows: Range<usize>,
        out: &mut [u64],
    ) -> bool {
        let (first, end) = (rows.start as u64, rows.end as u64);
        // SAFETY: the caller keeps the conditions above, and the signature is the one of the
        // compiled code.
        let failed = unsafe {
            (self.code)(arguments.as_ptr(), constants.as_ptr(), first, end, out.as_mut_ptr())
        };
        failed == 0
    }
}

/// Compiles a condition over columns of these shapes; `None` if the condition or the machine is not
/// supported.
pub(super) fn compile(node: &Node, columns: &[ColumnShape]) -> Option<Compiled> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").ok()?;
    let isa = cranelift_native::builder().ok()?.finish(settings::Flags::new(flags)).ok()?;
    let mut module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
    let Some(code) = define(&mut module, node, columns) else {
        // SAFETY: no function of the module was ever called.
        unsafe { module.free_memory() }
        return None;
    };
    // SAFETY: the function was defined with the signature of `Code`, in `define`.
    let code = unsafe { std::mem::transmute::<*const u8, Code>(code) };
    Some(Compiled { code, module: Mutex::new(Some(module)) })
}

fn define(module: &mut JITModule, node: &Node, columns: &[ColumnShape]) -> Option<*const u8> {
    let mut context = module.make_context();
    context.func.signature.params = vec![AbiParam::new(I64); 5];
    context.func.signature.returns = vec![AbiParam::new(I64)];
    let mut frontend = FunctionBuilderContext::new();
    let builder = FunctionBuilder::new(&mut context.func, &mut frontend);
    build(builder, module, node, columns)?;
    let id = module.declare_function("filter", Linkage::Local, &context.func.signature).ok()?;
    module.define_function(id, &mut context).ok()?;
    module.finalize_definitions().ok()?;
    Some(module.get_finalized_function(id))
}

/// Builds the loops: over words, and in each word over its rows.
fn build(
    mut builder: FunctionBuilder<'_>,
    module: &JITModule,
    node: &Node,
    columns: &[ColumnShape],
) -> Option<()> {
    let [entry, of_words, start_word, of_rows, end_word, done] =
        [(); 6].map(|()| builder.create_block());
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let [arguments, constants, first, end, out] =
        *builder.block_params(entry).first_chunk::<5>().expect("five parameters");
    let mut emitter = Emitter::new(&mut builder, columns, arguments, constants);
    let zero = emitter.builder.ins().iconst(I64, 0);
    let no_error = emitter.builder.ins().iconst(I8, 0);
    let active = emitter.builder.ins().iconst(I8, 1);
    emitter.builder.ins().jump(of_words, &[first.into(), no_error.into()]);

    let [word_row, error] = params(emitter.builder, of_words);
    let more = emitter.builder.ins().icmp(IntCC::UnsignedLessThan, word_row, end);
    emitter.builder.ins().brif(more, start_word, &[], done, &[]);

    emitter.builder.switch_to_block(start_word);
    let word_end = emitter.builder.ins().iadd_imm_u(word_row, 64);
    let is_last = emitter.builder.ins().icmp(IntCC::UnsignedGreaterThan, word_end, end);
    let limit = emitter.builder.ins().select(is_last, end, word_end);
    emitter.builder.ins().jump(of_rows, &[word_row.into(), zero.into(), error.into()]);

    emitter.builder.switch_to_block(of_rows);
    let row = emitter.builder.append_block_param(of_rows, I64);
    let word = emitter.builder.append_block_param(of_rows, I64);
    let row_error = emitter.builder.append_block_param(of_rows, I8);
    emitter.begin_row(row, row_error);
    let is_true = emitter.condition(node, active)?;
    let row_error = emitter.error();
    let bit = emitter.builder.ins().uextend(I64, is_true);
    // Shifts count modulo 64, and the first row of a word is a multiple of that.
    let bit = emitter.builder.ins().ishl(bit, row);
    let word = emitter.builder.ins().bor(word, bit);
    let next = emitter.builder.ins().iadd_imm_u(row, 1);
    let more = emitter.builder.ins().icmp(IntCC::UnsignedLessThan, next, limit);
    let again = [next.into(), word.into(), row_error.into()];
    emitter.builder.ins().brif(more, of_rows, &again, end_word, &[]);

    emitter.builder.switch_to_block(end_word);
    let rows_before = emitter.builder.ins().isub(word_row, first);
    let offset = emitter.builder.ins().ushr_imm_u(rows_before, 3);
    let place = emitter.builder.ins().iadd(out, offset);
    emitter.builder.ins().store(MemFlagsData::new().with_notrap(), word, place, 0);
    emitter.builder.ins().jump(of_words, &[word_end.into(), row_error.into()]);

    emitter.builder.switch_to_block(done);
    let error = emitter.builder.ins().uextend(I64, error);
    emitter.builder.ins().return_(&[error]);
    builder.seal_all_blocks();
    builder.finalize(module.target_config());
    Some(())
}

/// Begins the block of a word; its parameters are the first row, and the error so far.
fn params(builder: &mut FunctionBuilder<'_>, block: cranelift_codegen::ir::Block) -> [Value; 2] {
    builder.switch_to_block(block);
    [builder.append_block_param(block, I64), builder.append_block_param(block, I8)]
}
