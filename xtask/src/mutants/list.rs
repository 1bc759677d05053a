//! The mutations: each is one line of the shipped sources, made wrong as somebody might by mistake.

/// One line, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// What is wrong then.
    pub what: &'static str,
    /// Where.
    pub file: &'static str,
    /// A part of the file that stands there once.
    pub from: &'static str,
    /// What stands there instead.
    pub to: &'static str,
    /// The protocols, or small bodies, that should find it.
    pub protocols: &'static [&'static str],
}

/// Makes a list of mutants, like a diff: below each file, what is wrong, which protocols should find it, `- from`, `+ to`.
macro_rules! mutants {
    ($(in $file:literal: $($what:literal by $($protocol:literal),+ - $from:literal + $to:literal)+)+) => {
        /// All of them.
        pub const MUTANTS: &[Mutant] = &[$($(
            Mutant { what: $what, file: $file, from: $from, to: $to, protocols: &[$($protocol),+] },
        )+)+];
    };
}
pub(super) use mutants;

mutants! {
    in "runtime/src/cpu_cache/drain.rs":
        "a drainer does not restart the slot that it drains" by "remote drain"
        - "let is_restarted = kick::restart_all().is_ok();"
        + "let is_restarted = true;"
        "a drainer fences where it has to restart" by "remote drain"
        - "let is_restarted = kick::restart_all().is_ok();"
        + "let is_restarted = kick::fence_all().is_ok();"
        "two drainers drain at a time" by "remote drain"
        - "let acquired = self.cold.drain_lock.acquire(&self.depot.central.page_heap.locks().drain, site);"
        + "let acquired = { _ = (site, self.cold.drain_lock.try_acquire()); Acquired::Clean };"
        "a drainer that tunes a cache takes magazines out before it restarts their slots" by "cache tuning"
        - "let is_restarted = kick::restart_all().is_ok();"
        + "let is_restarted = why == Why::Tune || kick::restart_all().is_ok();"
    in "runtime/src/cpu_cache/slot_word.rs":
        "a drainer does not look whether the word still has its mark" by "remote drain"
        - "if is_kept { word.adopt(word.seen(before)) } else { None }"
        + "_ = is_kept;\n            word.adopt(word.seen(before))"
        "a drainer that was refused a restart puts back what it found, over what the slot's thread stored meanwhile"
            by "refusals"
        - "slot::compare_exchange(word.base(), word.slot, word.index(), DRAINING, before)"
        + "slot::exchange(word.base(), word.slot, word.index(), before)"
        "a thread takes a magazine out of a word that changed since it looked, so that the magazine has two owners"
            by "depot exchange", "remote drain"
        - "if seen.names_one() && self.replace(seen, 0) {"
        + "if seen.names_one() && (self.replace(seen, 0) || seen.word > 0) {"
        "a magazine that leaves its slot gives nothing back to the gap" by "sampled heap"
        - "gap.refund(magazine.len());"
        + "_ = gap;"
    in "runtime/src/cpu_cache/gap.rs":
        "a gap starts anew at each magazine" by "sampled heap"
        - "let word = if old == 0 { self.draw() } else { old };"
        + "let word = if old == 0 || most > 1 { self.draw() } else { old };"
    in "runtime/src/caches/guard/place.rs":
        "two threads take one place for a guarded block" by "guarded blocks"
        - "old % 4 == from as u64 && self.state.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).is_ok()"
        + "self.state.store(new, Ordering::Relaxed);\n        old % 4 == from as u64"
    in "runtime/src/profile/sampling.rs":
        "the profile counts a sample twice" by "sampled heap"
        - "let site = tables.allocated(stack, labels.of_thread(thread), figures)?;"
        + "let twice = tables.allocated(stack, labels.of_thread(thread), figures);\n            let site = tables.allocated(stack, labels.of_thread(thread), figures).and(twice)?;"
        "the profile does not learn that a sampled block is freed" by "sampled heap"
        - "profile.forget(index);\n}\n\nimpl"
        + "_ = (profile, index);\n}\n\nimpl"
    in "runtime/src/caches/whole.rs":
        "the thread that ends a cache does not keep threads away that go over all caches" by "cache creation"
        - "self.cpu.as_only_drainer(here!(), || cache.slots().for_each(|slot| self.take_magazines(cache, slot)))?;"
        + "cache.slots().for_each(|slot| self.take_magazines(cache, slot));"
    in "runtime/src/central/chunk.rs":
        "two threads that create caches do not wait for each other" by "cache creation"
        - "if self.lock.acquire(&heap.locks().caches, site) == Acquired::WouldDeadlock {"
        + "if { _ = (heap, site, self.lock.try_acquire()); false } {"
    in "runtime/src/caches/reading.rs":
        "a row of the slab table may be half of one cache, half of the next one" by "cache creation"
        - "state.is_none_or(|state| state.label().is_still(turn)).then_some(found)"
        + "state.is_none_or(|state| state.label().is_still(turn) || turn > 0).then_some(found)"
    in "runtime/src/cpu_cache/slow_path.rs":
        "a thread forgets a magazine that it could not install" by "depot exchange", "page map", "remote drain"
        - "Err(magazine) => return self.depot.push(cache, slot, magazine),"
        + "Err(magazine) if seen.is_draining() => return self.depot.push(cache, slot, magazine),\n            \
            Err(magazine) => return drop(magazine.into_top()),"
    in "runtime/src/depot/stack.rs":
        "a stack of magazines that gives one out does not count that" by "depot exchange", "remote drain"
        - "self.0.store(((word / ONE - 1) << COUNT_SHIFT) | top.link().load(Relaxed), Relaxed);"
        + "self.0.store(((word / ONE) << COUNT_SHIFT) | top.link().load(Relaxed), Relaxed);"
    in "runtime/src/central/objects.rs":
        "a span that changes hands keeps its owner" by "span owners"
        - "span.set_owner(slot);\n            Some(span)"
        + "Some(span)"
    in "runtime/src/central/shape.rs":
        "a process in which no thread has a slot divides by their number" by "heap upgrade"
        - "slot::in_use().div_ceil(DEPOTS_AT_FULL_BUDGET).max(1)"
        + "slot::in_use().div_ceil(DEPOTS_AT_FULL_BUDGET)"
    in "machine/host/src/sync/lock.rs":
        "a lock is released by a load and a store" by "depot exchange", "page map", "remote drain"
        - "let word = self.word.swap(0, Ordering::Release);"
        + "let word = self.word.load(Ordering::Relaxed); self.word.store(0, Ordering::Release);"
        "a lock is taken that somebody took meanwhile" by "depot exchange", "page map", "remote drain"
        - "self.word.compare_exchange(word, ours, Ordering::Acquire, Ordering::Relaxed).is_ok()"
        + "self.word.load(Ordering::Relaxed) == word && { self.word.store(ours, Ordering::Relaxed); true }"
        "a lock does not count while it is waited for" by "lock ranks"
        - "Self::count_held();\n        let outcome = self.wait_for_it();"
        + "let outcome = self.wait_for_it();\n        Self::count_held();"
        "a lock counts no more before a sleeper was woken" by "lock ranks"
        - "if word & WAITERS != 0 {\n            wake_one(&self.word);\n        }\n        Self::uncount_held();"
        + "Self::uncount_held();\n        if word & WAITERS != 0 {\n            wake_one(&self.word);\n        }"
    in "machine/host/src/thread/identity.rs":
        "a fork child does not know that the threads of its parent are gone" by "fork", "fork in handlers"
        - "GONE.store(NEXT_IDENTITY.load(Ordering::Relaxed) - 1, Ordering::Relaxed);"
        + "GONE.load(Ordering::Relaxed);"
    in "machine/host/src/root.rs":
        "a second region replaces the first one" by "heap upgrade"
        - "BASE.compare_exchange(BOOTSTRAP.0.get().cast(), region, Ordering::Release, Ordering::Relaxed).is_ok()"
        + "{ BASE.store(region, Ordering::Release); true }"
    in "machine/host/src/slot/fallback.rs":
        "a thread adopts a dead one's slot that another one adopts at the same time" by "generations"
        - "owner.compare_exchange(old, after(old, me), Ordering::Acquire, Ordering::Relaxed).is_ok().then_some(slot)"
        + "{ owner.store(after(old, me), Ordering::Relaxed); Some(slot) }"
        "a dead thread's slot is drained while somebody adopts it" by "generations"
        - "owner.compare_exchange(old, borrowed, Ordering::Acquire, Ordering::Relaxed).ok()?;"
        + "owner.load(Ordering::Acquire);"
        "an owner is replaced that came since, under a dead one's number" by "slots of the dead"
        - "((owner >> NUMBER_BITS) + 1) << NUMBER_BITS | number"
        + "owner >> NUMBER_BITS << NUMBER_BITS | number"
    in "runtime/src/caches/object_cache.rs":
        "a thread that shrinks a cache does not enter the runtime first, so that it does not notice a fork"
            by "watched cache"
        - "enter();\n        heap().shrink(self.cache())"
        + "crate::percpu::enter();\n        heap().shrink(self.cache())"
    in "runtime/src/cpu_cache/drain.rs":
        "a drainer leaves out the slot that it is in by then" by "group limits"
        - "let others = self.drain_slots(which, 0..slot::in_use(), why);"
        + "let (me, all) = (slot::current(), 0..slot::in_use());\n        let others = self.drain_slots(which, all.filter(|&slot| Some(slot) != me), why);"
    in "runtime/src/counter/account.rs":
        "a group is charged without a look at its limit" by "group limits"
        - "self.charge.limited_add(units, limit as i64)"
        + "self.charge.try_add(units).is_ok()"
    in "runtime/src/group/inner.rs":
        "a thread that makes a group's cache enters it over another thread's" by "groups"
        - "match entry.compare_exchange(0, ours.word(), Ordering::AcqRel, Ordering::Acquire) {"
        + "match Ok::<usize, usize>(entry.swap(ours.word(), Ordering::AcqRel)) {"
    in "runtime/src/central/charged.rs":
        "a thread at a limit takes back only what the group itself has in magazines" by "group limits"
        - "(self.table, self.entry) = (self.root.after(table), 0);"
        + "(self.table, self.entry) = (self.root.after(table).filter(|_| false), 0);"
    in "runtime/src/group/entry.rs":
        "in a fork child, nobody says where the thread is inside that forked" by "group forks"
        - "unsafe { (*group).users.set(times as u32) };"
        + "let _ = times;"
    in "runtime/src/cpu_cache/resize.rs":
        "a cache that shrinks to level 0 keeps what its slot was granted" by "array sizes"
        - "self.give_back(Room::of(slot, Budget::of(shape)), beyond(shape, level));"
        + "let _ = (level, shape);"
        "what all slots are granted only grows" by "middle sizes"
        - "room.change(|shares| Some(shares.taking_back(kib)));\n        self.cold.kib_granted.fetch_sub(kib.into(), Ordering::Relaxed);"
        + "room.change(|shares| Some(shares.taking_back(kib)));"
        "a slot borrows from the budget what no other slot lends" by "array sizes"
        - "may.then(|| Shares { lent: self.lent + kib as i16, ..self })"
        + "may.then(|| Shares { lent: self.lent + 0 * kib as i16, ..self })"
    in "runtime/src/page_heap/memblock.rs":
        "first blocks: of two threads that clear bits of a word, one is overtaken" by "first blocks"
        - "which(&self.bits[at]).fetch_and(!mask, Relaxed)"
        + "{ let word = which(&self.bits[at]); let old = word.load(Relaxed); word.store(old & !mask, Relaxed); old }"
    in "runtime/src/rcu/synchronize.rs":
        "RCU: the updater fences where it has to order all readers" by "sections in sections", "grace periods"
        - "false => kick::fence_all().map(|()| FENCED),"
        + "false => Ok(FENCED),"
    in "runtime/src/rcu/watch.rs":
        "RCU: a slot is judged that has not shown itself" by "watched slots"
        - "new.begun.load(Ordering::Acquire) != seen_begun || is_here(slot)"
        + "true"
    in "runtime/src/rcu/sections.rs":
        "RCU: begins are counted before ends" by "sections in sections", "grace periods"
        - "let ended = row.ended.load(Ordering::Acquire).wrapping_add(row.ended_elsewhere.load(Ordering::Acquire));\n                row.begun.load(Ordering::Acquire).wrapping_add(row.begun_beside.load(Ordering::Acquire)) == ended"
        + "let begun = row.begun.load(Ordering::Acquire).wrapping_add(row.begun_beside.load(Ordering::Acquire));\n                row.ended.load(Ordering::Acquire).wrapping_add(row.ended_elsewhere.load(Ordering::Acquire)) == begun"
        "RCU: begins are counted before ends, in lanes" by "sections in sections", "grace periods"
        - "let ended = words.ended.load(Ordering::Acquire);\n                words.begun.load(Ordering::Acquire) == ended"
        + "let begun = words.begun.load(Ordering::Acquire);\n                words.ended.load(Ordering::Acquire) == begun"
    in "runtime/src/rcu/reader.rs":
        "RCU: an end is counted where the thread is" by "sections in sections", "grace periods"
        - "if !unsafe { slot::count_in::<TO_END>(open.0) } {"
        + "let here = slot::current_if_given().unwrap_or(0) as usize;\n    let there = open.0.at.wrapping_add((here * slot::COUNTS).wrapping_sub(open.0.slot as usize * slot::COUNTS));\n    let is_in_row = open.0.slot >> 31 == 0;\n    let now = if is_in_row { Counted { at: there, slot: here as u32 } } else { open.0 };\n    if !unsafe { slot::count_in::<TO_END>(now) } {"
    in "runtime/src/rcu/synchronize.rs":
        "RCU: readers stay in the same period" by "hand over hand"
        - "sections.turn();"
        + ""
        "RCU: the period that is not in use is not waited for" by "sections in sections", "grace periods"
        - "Some(place) => return Step::Open(place),\n                    None => {}"
        + "Some(_) | None => {}"
        "RCU: only the period that is not in use is waited for" by "sections in sections", "grace periods"
        - "if !needs_turn && first_open(domain, period).is_none() {\n                    return end(domain);\n                }"
        + "return end(domain);"
    in "runtime/src/rcu/cell.rs":
        "an update replaces a value that it has not seen" by "cell updates"
        - "let done = self.at.compare_exchange(old.as_ptr(), new.as_ptr(), Ordering::AcqRel, Ordering::Relaxed);"
        + "let done = Ok::<_, ()>(self.at.swap(new.as_ptr(), Ordering::AcqRel));"
        "a value that was replaced goes before its owner drops it" by "cell updates"
        - "Replaced { value, owns: PhantomData }"
        + "unsafe { retire(value) };\n        Replaced { value, owns: PhantomData }"
    in "runtime/src/rcu/grace.rs":
        "RCU: the number is read before what was unlinked is" by "sections in sections", "grace periods"
        - "Cookie(self.begun.0.load(Ordering::SeqCst) + 1)"
        + "Cookie(self.begun.0.load(Ordering::SeqCst))"
    in "runtime/src/rcu/reader.rs":
        "RCU forks: a section is counted as the thread's after it is in a row" by "section forks in handlers"
        - "if thread::descend() {\n        return open_slow();\n    }\n    // SAFETY: the thread is ready: it has a slot, and there are counts for all possible ones.\n    Open(unsafe { Domain::of_process().sections.begin_in_row() })"
        + "if thread::level() <= 0 {\n        thread::descend();\n        return open_slow();\n    }\n    let counted = unsafe { Domain::of_process().sections.begin_in_row() };\n    thread::descend();\n    Open(counted)"
    in "runtime/src/rcu/synchronize.rs":
        "RCU forks: a step that was interrupted by a fork goes on in the child" by "section forks in handlers"
        - "if domain.has_inherited() {\n        domain.grace.stage"
        + "if false {\n        domain.grace.stage"
    in "runtime/src/rcu/domain.rs":
        "RCU forks: younger sections count as inherited ones" by "section forks", "section forks in handlers"
        - "if Base::of(thread::level()) == Base::Inherited && since < 0 {"
        + "if Base::of(thread::level()) == Base::Inherited {"
    in "runtime/src/rcu/sections.rs":
        "RCU forks: in a child, rows still have the parent's sections" by "section forks", "section forks in handlers"
        - "self.slots() as usize * COUNTS"
        + "0"
        "RCU forks: lanes have no marks" by "section forks in handlers"
        - "(seen & !COUNT == mark).then("
        + "true.then("
        "RCU forks: rows are used while a child has inherited sections" by "section forks", "section forks in handlers"
        - "let _ = self.rows.compare_exchange(USED, RESTING, Ordering::Relaxed, Ordering::Relaxed);"
        + "let _ = (self.rows.compare_exchange(USED, RESTING, Ordering::Relaxed, Ordering::Relaxed), self.use_rows_again());"
    in "runtime/src/rcu/queue.rs":
        "RCU deferred: what is sealed waits for the grace period before" by "deferred"
        - "open.cookie = next().0;"
        + "open.cookie = next().0 - 1;"
    in "runtime/src/rcu/deferred.rs":
        "RCU deferred: calls are made before their time" by "deferred"
        - "take(domain, queue, Held::take_calls)"
        + "queue.lock(&domain.deferred.contention, here!()).and_then(|mut held| held.take_calls())"
        "RCU deferred: what others have in hands is not waited for" by "deferred"
        - "while queue.is_in_hands(segment) {"
        + "while false {"
    in "runtime/src/cpu_cache/drain.rs":
        "RCU deferred: the thread that takes magazines of retired objects away fences where it has to restart"
            by "deferred"
        - "let is_restarted = kick::restart_all().is_ok();"
        + "let is_restarted = if why == Why::Deferred { kick::fence_all() } else { kick::restart_all() }.is_ok();"
    in "runtime/src/rcu/worker.rs":
        "RCU deferred: the worker looks before it says that it is idle" by "worker"
        - "self.state.store(IDLE, Ordering::SeqCst);\n        if !has_work() {"
        + "let is_busy = has_work();\n        self.state.store(IDLE, Ordering::SeqCst);\n        if !is_busy {"
    in "runtime/src/rcu/queue.rs":
        "RCU deferred forks: a child does not close a batch that is full, and fills it on" by "deferred forks"
        - "if unsafe { Batch::view_of_word(self.state().filling[class]) }.is_some_and(View::is_full) {"
        + "if false {"
    in "runtime/src/rcu/registered.rs":
        "RCU registered: a report may take back what a kick in its midst reported" by "registered"
        - "same if same == number => return,"
        + "_ => return,"
        "RCU registered: who comes back reads before that is seen" by "registered"
        - "self.see(grace, || fence(Ordering::SeqCst));"
        + "self.see(grace, || ());"
        "RCU registered: a kick in a section reports" by "registered"
        - "let is_outside = record.depth.load(Ordering::Relaxed) == 0;"
        + "let is_outside = true;"
        "RCU registered: who reported before the grace period began is not waited for" by "registered"
        - "seen == 0 || seen > number"
        + "seen == 0 || seen >= number"
    in "runtime/src/rcu/domain.rs":
        "RCU registered forks: the readers of all threads are a child's" by "registered forks"
        - "self.registered.keep_own();"
        + ""
    in "runtime/src/central/typesafe.rs":
        "RCU typesafe: the cache frees a span at once, without a grace period" by "typesafe"
        - "typesafe.filter(|_| !(crate::UPCALLS.readers_are_absent)())"
        + "typesafe.filter(|_| false)"
        "RCU typesafe: a thread that waits for the cache to be empty does not wait for others who empty it"
            by "typesafe"
        - "for state in self.listed() {"
        + "for state in self.listed().filter(|state| !state.waiting.is_empty()) {"
    in "runtime/src/central/waiting.rs":
        "RCU typesafe: a thread that waited for a grace period frees what others have sealed since" by "typesafe"
        - "if is_over(self.number.load(Relaxed))"
        + "if true"
        "RCU typesafe: a thread that seals a list leaves the number of the last grace period there" by "typesafe"
        - "self.number.store(start(), Relaxed);"
        + "_ = start();"
        "RCU typesafe: two threads take the same waiting span out" by "typesafe"
        - "self.first[list].store(span.next(), Relaxed);"
        + "_ = span.next();"
    in "runtime/src/page_heap/span.rs":
        "upkeep: pages of objects in use go back with those of free ones" by "upkeep"
        - "let is_free = index < total && self.is_free(at(index));"
        + "let is_free = index < total;"
        "random order: objects of two windows have the same place" by "depot exchange", "remote drain"
        - "if index < self.moved { index ^ self.order } else { index }"
        + "if index < self.moved { index | self.order } else { index }"
    in "runtime/src/caches/harden.rs":
        "hardened: a fresh object says that it is filled" by "hardened heap"
        - ".say(FRESH);"
        + ".say(FREE);"
        "hardened: a block notes half of its length" by "hardened heap"
        - "self.say(bytes as u64 * LENGTH);\n        self.start"
        + "self.say(bytes as u64 / 2 * LENGTH);\n        self.start"
    in "runtime/src/page_heap/kept.rs":
        "hardened: a mapping that is taken stays in the quarantine" by "hardened heap"
        - "let taken = core::mem::take(fitting.min_by_key(|mapping| mapping.bytes)?);"
        + "let taken = *fitting.min_by_key(|mapping| mapping.bytes)?;"
    in "runtime/src/page_heap/blocks.rs":
        "hardened: a mapping waits for reuse before it has lost its access" by "hardened heap"
        - "let is_kept = is_kept && unsafe { vm::protect(start, bytes, vm::Access::None) };"
        + "if is_kept {\n            let _ = self.locked(here!(), |state| state.kept.put(mapping));\n            unsafe { vm::protect(start, bytes, vm::Access::None) };\n            return;\n        }"
    in "runtime/src/page_heap/list.rs":
        "upkeep: spans that leave a page list stay linked to the rest of it" by "upkeep"
        - "last.set_next(null_mut());"
        + ""
    in "runtime/src/cpu_cache/drain.rs":
        "upkeep: a deserted slot's depot is emptied without the drain lock" by "upkeep"
        - "self.as_only_drainer(here!(), || self.reclaim_part(part, slot, (now, idle), &mut done))?;"
        + "self.reclaim_part(part, slot, (now, idle), &mut done);"
    in "runtime/src/page_heap/runs.rs":
        "who reads the report looks twice at the cache of a span" by "every walk"
        - "for_each(|number| show(span, number))"
        + "for_each(|_| show(span, span.cache()))"
}
