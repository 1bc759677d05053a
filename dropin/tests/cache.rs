//! The object caches of `commensal.h`, as C programs use them: linked with the shared library and with the archive, in both modes.

use commensal_dropin::in_both_modes;
use commensal_dropin::linked::{ends_with, holds};

in_both_modes! {
    basics: |mode| holds(mode, "cache basics");
    hooks: |mode| holds(mode, "cache hooks");
    threads: |mode| holds(mode, "cache threads");
    forks: |mode| holds(mode, "cache forks");
    given_to_another: |mode| ends_with(mode, "cache mixed_up", "was given back to a cache that it is not from");
}
