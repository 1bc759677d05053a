//! The hook of the slow paths: requests of an operator, upkeep, and the statistics page.

use super::{control, statistics};
use crate::caches::heap;
use crate::upcalls::{Rest, Visit};
use crate::upkeep;

/// Does what is due on a slow path; see [`crate::upcalls::Upcalls`].
pub(crate) fn maintain(visit: Visit) {
    control::poll();
    if visit.upkeep_is_due {
        upkeep::maintain(visit.slot, visit.from);
    }
    if visit.time.is_some_and(|time| heap().cpu.hook.statistics_at.is_due(time)) {
        statistics::write_due(Rest::No);
    }
}
