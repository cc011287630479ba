//! model_layout-3: any bytes are a footer or an error, and encoding a decoded footer gives its
//! bytes.

use tidegate_model::layout::SegmentFooter;

/// The offset at which regions end, for the footers of this target.
const REGIONS_END: u64 = 1 << 16;

pub(crate) fn check(bytes: &[u8]) {
    if let Ok(footer) = SegmentFooter::decode(bytes, REGIONS_END) {
        let again = SegmentFooter::decode(&footer.encode(), REGIONS_END);
        assert_eq!(again, Ok(footer), "model_layout-3");
    }
}
