//! Memory goes back to the kernel when it is free, and serves again before new memory is asked for.

use dropin::check::promised;
use dropin::in_both_modes;

in_both_modes! {
    small_blocks_go_back: promised("memory returns 48");
    middling_blocks_go_back: promised("memory returns 1500");
    larger_blocks_go_back: promised("memory returns 100000");
    large_blocks_go_back: promised("memory returns 5000000");
    small_blocks_go_back_without_a_call: promised("memory alone 48");
    blocks_of_many_sizes_go_back_without_a_call: promised("memory alone 0");
    larger_blocks_go_back_without_a_call: promised("memory alone 100000");
    large_blocks_go_back_without_a_call: promised("memory alone 5000000");
    small_blocks_are_reused: "memory reuse 64";
    larger_blocks_are_reused: "memory reuse 30000";
    large_blocks_are_reused: "memory reuse 3000000";
    memory_serves_all_sizes: promised("memory recycle");
}
