//! RCU of `commensal.h`, as C programs use it: linked with the shared library and with the archive, in both modes.

use dropin::in_both_modes;
use dropin::linked::holds;

in_both_modes! {
    basics: |mode| holds(mode, "rcu basics");
    list: |mode| holds(mode, "rcu list");
    deferred: |mode| holds(mode, "rcu deferred");
    registered: |mode| holds(mode, "rcu registered");
    forks: |mode| holds(mode, "rcu forks");
}
