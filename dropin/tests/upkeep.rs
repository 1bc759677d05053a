//! Upkeep, as C programs use it: linked with the shared library and with the archive, in both modes.

use dropin::in_both_modes;
use dropin::linked::holds;

in_both_modes! {
    settings: |mode| holds(mode, "upkeep settings");
    leaves: |mode| holds(mode, "upkeep leaves");
    user: |mode| holds(mode, "upkeep user");
}
