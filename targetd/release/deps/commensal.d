/work/side/targetd/release/deps/commensal.d: malloc/src/lib.rs malloc/src/cache.rs malloc/src/counter.rs malloc/src/counters.rs malloc/src/cxx.rs malloc/src/group.rs malloc/src/loaded.rs malloc/src/locks.rs malloc/src/namespaces.rs malloc/src/prctl.rs malloc/src/rcu.rs malloc/src/rcu_reader.rs malloc/src/sandbox.rs malloc/src/stdlib.rs malloc/src/upkeep.rs malloc/src/vfork.rs

/work/side/targetd/release/deps/libcommensal.so: malloc/src/lib.rs malloc/src/cache.rs malloc/src/counter.rs malloc/src/counters.rs malloc/src/cxx.rs malloc/src/group.rs malloc/src/loaded.rs malloc/src/locks.rs malloc/src/namespaces.rs malloc/src/prctl.rs malloc/src/rcu.rs malloc/src/rcu_reader.rs malloc/src/sandbox.rs malloc/src/stdlib.rs malloc/src/upkeep.rs malloc/src/vfork.rs

/work/side/targetd/release/deps/libcommensal.a: malloc/src/lib.rs malloc/src/cache.rs malloc/src/counter.rs malloc/src/counters.rs malloc/src/cxx.rs malloc/src/group.rs malloc/src/loaded.rs malloc/src/locks.rs malloc/src/namespaces.rs malloc/src/prctl.rs malloc/src/rcu.rs malloc/src/rcu_reader.rs malloc/src/sandbox.rs malloc/src/stdlib.rs malloc/src/upkeep.rs malloc/src/vfork.rs

malloc/src/lib.rs:
malloc/src/cache.rs:
malloc/src/counter.rs:
malloc/src/counters.rs:
malloc/src/cxx.rs:
malloc/src/group.rs:
malloc/src/loaded.rs:
malloc/src/locks.rs:
malloc/src/namespaces.rs:
malloc/src/prctl.rs:
malloc/src/rcu.rs:
malloc/src/rcu_reader.rs:
malloc/src/sandbox.rs:
malloc/src/stdlib.rs:
malloc/src/upkeep.rs:
malloc/src/vfork.rs:

# env-dep:CARGO_PKG_VERSION=0.1.0
