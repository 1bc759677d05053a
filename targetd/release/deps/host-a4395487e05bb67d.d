/work/side/targetd/release/deps/host-a4395487e05bb67d.d: machine/host/src/lib.rs machine/host/src/clock.rs machine/host/src/code.rs machine/host/src/error.rs machine/host/src/fault.rs machine/host/src/kick.rs machine/host/src/process.rs machine/host/src/publication.rs machine/host/src/root.rs machine/host/src/sandbox.rs machine/host/src/slot/mod.rs machine/host/src/slot/count.rs machine/host/src/slot/entry.rs machine/host/src/slot/fallback.rs machine/host/src/slot/given.rs machine/host/src/slot/layout.rs machine/host/src/slot/number.rs machine/host/src/slot/restartable.rs machine/host/src/slot/row.rs machine/host/src/slot/section.rs machine/host/src/slot/words.rs machine/host/src/sync/mod.rs machine/host/src/sync/contention.rs machine/host/src/sync/lock.rs machine/host/src/sync/order.rs machine/host/src/sync/site.rs machine/host/src/sync/wait.rs machine/host/src/syscall/mod.rs machine/host/src/syscall/numbers.rs machine/host/src/test_support.rs machine/host/src/thread/mod.rs machine/host/src/thread/block.rs machine/host/src/thread/identity.rs machine/host/src/thread/interrupt.rs machine/host/src/thread/spawn.rs machine/host/src/vm.rs machine/host/src/zero.rs

/work/side/targetd/release/deps/libhost-a4395487e05bb67d.rlib: machine/host/src/lib.rs machine/host/src/clock.rs machine/host/src/code.rs machine/host/src/error.rs machine/host/src/fault.rs machine/host/src/kick.rs machine/host/src/process.rs machine/host/src/publication.rs machine/host/src/root.rs machine/host/src/sandbox.rs machine/host/src/slot/mod.rs machine/host/src/slot/count.rs machine/host/src/slot/entry.rs machine/host/src/slot/fallback.rs machine/host/src/slot/given.rs machine/host/src/slot/layout.rs machine/host/src/slot/number.rs machine/host/src/slot/restartable.rs machine/host/src/slot/row.rs machine/host/src/slot/section.rs machine/host/src/slot/words.rs machine/host/src/sync/mod.rs machine/host/src/sync/contention.rs machine/host/src/sync/lock.rs machine/host/src/sync/order.rs machine/host/src/sync/site.rs machine/host/src/sync/wait.rs machine/host/src/syscall/mod.rs machine/host/src/syscall/numbers.rs machine/host/src/test_support.rs machine/host/src/thread/mod.rs machine/host/src/thread/block.rs machine/host/src/thread/identity.rs machine/host/src/thread/interrupt.rs machine/host/src/thread/spawn.rs machine/host/src/vm.rs machine/host/src/zero.rs

/work/side/targetd/release/deps/libhost-a4395487e05bb67d.rmeta: machine/host/src/lib.rs machine/host/src/clock.rs machine/host/src/code.rs machine/host/src/error.rs machine/host/src/fault.rs machine/host/src/kick.rs machine/host/src/process.rs machine/host/src/publication.rs machine/host/src/root.rs machine/host/src/sandbox.rs machine/host/src/slot/mod.rs machine/host/src/slot/count.rs machine/host/src/slot/entry.rs machine/host/src/slot/fallback.rs machine/host/src/slot/given.rs machine/host/src/slot/layout.rs machine/host/src/slot/number.rs machine/host/src/slot/restartable.rs machine/host/src/slot/row.rs machine/host/src/slot/section.rs machine/host/src/slot/words.rs machine/host/src/sync/mod.rs machine/host/src/sync/contention.rs machine/host/src/sync/lock.rs machine/host/src/sync/order.rs machine/host/src/sync/site.rs machine/host/src/sync/wait.rs machine/host/src/syscall/mod.rs machine/host/src/syscall/numbers.rs machine/host/src/test_support.rs machine/host/src/thread/mod.rs machine/host/src/thread/block.rs machine/host/src/thread/identity.rs machine/host/src/thread/interrupt.rs machine/host/src/thread/spawn.rs machine/host/src/vm.rs machine/host/src/zero.rs

machine/host/src/lib.rs:
machine/host/src/clock.rs:
machine/host/src/code.rs:
machine/host/src/error.rs:
machine/host/src/fault.rs:
machine/host/src/kick.rs:
machine/host/src/process.rs:
machine/host/src/publication.rs:
machine/host/src/root.rs:
machine/host/src/sandbox.rs:
machine/host/src/slot/mod.rs:
machine/host/src/slot/count.rs:
machine/host/src/slot/entry.rs:
machine/host/src/slot/fallback.rs:
machine/host/src/slot/given.rs:
machine/host/src/slot/layout.rs:
machine/host/src/slot/number.rs:
machine/host/src/slot/restartable.rs:
machine/host/src/slot/row.rs:
machine/host/src/slot/section.rs:
machine/host/src/slot/words.rs:
machine/host/src/sync/mod.rs:
machine/host/src/sync/contention.rs:
machine/host/src/sync/lock.rs:
machine/host/src/sync/order.rs:
machine/host/src/sync/site.rs:
machine/host/src/sync/wait.rs:
machine/host/src/syscall/mod.rs:
machine/host/src/syscall/numbers.rs:
machine/host/src/test_support.rs:
machine/host/src/thread/mod.rs:
machine/host/src/thread/block.rs:
machine/host/src/thread/identity.rs:
machine/host/src/thread/interrupt.rs:
machine/host/src/thread/spawn.rs:
machine/host/src/vm.rs:
machine/host/src/zero.rs:
