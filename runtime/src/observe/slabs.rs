//! The slab table as text, in the columns of the kernel's /proc/slabinfo: for the library's report and for the command.

use super::figures::Cache;
use core::fmt::{self, Write};
use machine::vm::PAGE;

/// Writes the head of the slab table, which has the columns of the kernel's /proc/slabinfo.
///
/// # Errors
/// The errors of `out`.
pub fn write_head(out: &mut impl Write) -> fmt::Result {
    out.write_str(
        "slabinfo - version: 2.1\n# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> \
         : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>\n",
    )
}

/// Writes a row of the slab table. The kernel's two columns about sharing have no meaning here.
///
/// # Errors
/// The errors of `out`.
pub fn write_row(out: &mut impl Write, name: &str, row: &Cache) -> fmt::Result {
    let Cache { in_use, objects, object_bytes, spans, span_bytes, limit, batch, active_spans, .. } = row;
    let (in_a_span, pages) = (objects / spans.max(&1), span_bytes / spans.max(&1) / PAGE as u64);
    write!(out, "{name:<17} {in_use:>6} {objects:>6} {object_bytes:>6} {in_a_span:>4} {pages:>4}")?;
    write!(out, " : tunables {limit:>4} {batch:>4} {:>4}", 0)?;
    writeln!(out, " : slabdata {active_spans:>6} {spans:>6} {:>6}", 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    #[test]
    fn slab_row_has_a_word_for_each_of_the_kernels_columns() {
        let mut text = String::new();
        write_head(&mut text).unwrap();
        let row = Cache {
            in_use: 1,
            objects: 6,
            object_bytes: 8,
            spans: 2,
            span_bytes: 8192,
            limit: 5,
            batch: 4,
            active_spans: 1,
            ..Cache::NONE
        };
        write_row(&mut text, "some", &row).unwrap();
        let kernels = "slabinfo - version: 2.1\n# name            <active_objs> <num_objs> <objsize> <objperslab> \
                       <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata \
                       <active_slabs> <num_slabs> <sharedavail>\n";
        let expected = "some                   1      6      8    3    1 : tunables    5    4    0 \
                        : slabdata      1      2      0\n";
        assert_eq!(text, [kernels, expected].concat());
    }
}
