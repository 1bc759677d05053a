//! The memory groups of `commensal.h`, as C programs use them: linked with the shared library and with the archive, in both modes.

use dropin::in_both_modes;
use dropin::linked::holds;

in_both_modes! {
    basics: |mode| holds(mode, "group basics");
    nesting: |mode| holds(mode, "group nesting");
    own: |mode| holds(mode, "group own");
    faults: |mode| holds(mode, "group faults");
}
