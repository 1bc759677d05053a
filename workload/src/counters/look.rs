//! Reading and summing a counter that several CPUs added to.

use super::{Form, Object, Visit};
use crate::timing::{eight_times, floor_ns};
use commensal::percpu::Area;
use core::hint::black_box;

/// What a look costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// An approximate reading.
    pub read_ns: f64,
    /// A sum.
    pub sum_ns: f64,
}

/// Measures it in some form, laid out for so many CPUs. Threads have added in `slots` of them, as far as the form's sums depend on that:
/// an eager one's look at all CPUs in any case. None: no memory.
pub fn look(form: Form, cpus: usize, slots: u32) -> Option<Look> {
    form.visit(Looks { area: form.area(cpus)?, slots })
}

struct Looks {
    area: &'static Area,
    slots: u32,
}

impl Visit for Looks {
    type Out = Option<Look>;

    fn with<O: Object>(self) -> Option<Look> {
        const ADDED: i64 = 7;
        let object = O::new(self.area)?;
        object.share(self.area)?;
        object.touch(self.slots);
        object.add(0, ADDED);
        let read_ns = each_ns(|| object.read(0))?;
        let sum_ns = each_ns(|| object.sum(0))?;
        (object.sum(0) == ADDED).then_some(Look { read_ns, sum_ns })
    }
}

/// Of eight in a row.
fn each_ns(look: impl Fn() -> i64) -> Option<f64> {
    let eight_ns = floor_ns(|tasks| {
        for _ in 0..tasks {
            eight_times!(|at| black_box(black_box(&look)()));
        }
        Some(())
    });
    Some(eight_ns? / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_slots_are_summed_and_no_others() {
        struct Touched(&'static Area);
        impl Visit for Touched {
            type Out = i64;
            fn with<O: Object>(self) -> i64 {
                let object = O::new(self.0).unwrap();
                object.share(self.0).unwrap();
                object.touch(80);
                object.add(0, 41);
                object.add(0, 1);
                object.sum(0)
            }
        }
        for form in Form::ALL {
            assert_eq!(form.visit(Touched(form.area(256).unwrap())), 42, "{form:?}");
            assert!(look(form, 256, 80).is_some_and(|look| look.read_ns > 0.0 && look.sum_ns > 0.0), "{form:?}");
        }
        let (few, many) = (look(Form::LazyAndCached, 256, 1).unwrap(), look(Form::LazyAndCached, 256, 256).unwrap());
        assert!(many.sum_ns > 2.0 * few.sum_ns, "{few:?}, {many:?}");
    }
}
