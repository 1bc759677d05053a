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
    in "runtime/src/slab/drain.rs":
        "a drainer does not restart the slot that it drains" by "remote drain"
        - "let restarted = kick::restart_all().is_ok();"
        + "let restarted = true;"
        "a drainer fences where it has to restart" by "remote drain"
        - "let restarted = kick::restart_all().is_ok();"
        + "let restarted = kick::fence_all().is_ok();"
        "a drainer does not look whether the word still has its mark" by "remote drain"
        - "Some(array) if kept && restarted =>"
        + "Some(array) if restarted =>"
        "two drainers at a time" by "remote drain"
        - "let acquired = self.slab.registry().rare.0.drain_lock.acquire(&self.slab.locks().drain, site);"
        + "let acquired = { self.slab.registry().rare.0.drain_lock.try_acquire(); Acquired::Clean };"
        "a cache is tuned as it would be drained before it is restarted" by "cache tuning"
        - "let restarted = kick::restart_all().is_ok();"
        + "let restarted = why == Why::Tune || kick::restart_all().is_ok();"
    in "runtime/src/slab/end.rs":
        "who ends a cache does not keep those away who go over all" by "cache creation"
        - "self.general().as_only_drainer(here!(), end).unwrap_or(Err(Alive::Interrupting))"
        + "end(self.general())"
    in "runtime/src/slab/panels.rs":
        "two threads that create caches do not wait for each other" by "cache creation"
        - "if self.lock.acquire(&slab.locks().panels, site) == Acquired::WouldDeadlock {"
        + "if { self.lock.try_acquire(); false } {"
    in "runtime/src/slab/survey.rs":
        "a row of the slab table may be half of one cache, half of the next one" by "cache creation"
        - "cache.is_none_or(|cache| cache.label().is_still(turn)).then_some(found)"
        + "cache.is_none_or(|cache| cache.label().is_still(turn) || turn > 0).then_some(found)"
    in "runtime/src/slab/put.rs":
        "an array that could not be installed is forgotten" by "depot exchange", "page map", "remote drain"
        - "if Self::is_drained(word) || !self.replace(slot, false, word, next.give_word()) {"
        + "if Self::is_drained(word) || (!self.replace(slot, false, word, next.give_word()) && slot > 1 << 20) {"
    in "runtime/src/slab/take.rs":
        "a span that changes hands keeps its owner" by "span owners"
        - "(*span).set_owner(own.slot);"
        + ""
    in "runtime/src/slab/shape.rs":
        "a process in which no thread has a slot divides by their number" by "heap upgrade"
        - "let slots = slot::in_use().max(1);"
        + "let slots = slot::in_use();"
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
    in "machine/host/src/root.rs":
        "a fork child waits for the thread of its parent that made the heap" by "fork", "fork in handlers"
        - "expected = if other == process { 0 } else { other };"
        + "let _ = other; expected = 0;"
        "whoever makes the heap asks for its process before handlers can fork no more" by "fork in handlers"
        - "    thread::without_signals(|| {\n        // Here, where no handler forks any more: the child would have the parent's.\n        let process = process::id();"
        + "    let process = process::id();\n    thread::without_signals(|| {"
    in "machine/host/src/thread/identity.rs":
        "a fork child does not know that the threads of its parent are gone" by "fork", "fork in handlers"
        - "GONE.store(NEXT_IDENTITY.load(Ordering::Relaxed) - 1, Ordering::Relaxed);"
        + "GONE.load(Ordering::Relaxed);"
    in "machine/host/src/root.rs":
        "two threads make the region" by "heap upgrade"
        - "while let Err(other) = MAKING.compare_exchange("
        + "if let Err(other) = MAKING.compare_exchange("
        "whoever waited for the region makes another one" by "heap upgrade"
        - "if !is_installed()\n"
        + "if AREA.load(Ordering::Relaxed).is_null()\n"
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
    in "runtime/src/slab/object_cache.rs":
        "a cache is shrunk by a thread that nobody noticed, so that a fork in its midst goes unnoticed, too"
            by "watched cache"
        - "sharing::enter();\n        self.handle().shrink()"
        + "crate::percpu::enter();\n        self.handle().shrink()"
    in "runtime/src/slab/drain.rs":
        "who empties arrays leaves out the slot that it is in by then" by "group limits"
        - "let others = 0..slot::in_use();"
        + "let own = slot::current(); let others = (0..slot::in_use()).filter(|&slot| Some(slot) != own);"
    in "runtime/src/slab/account.rs":
        "a group is charged without a look at its limit" by "group limits"
        - "self.charge.limited_add(units, limit as i64)"
        + "self.charge.try_add(units).is_ok()"
    in "runtime/src/group/inner.rs":
        "whoever makes a group's cache enters it, also over another's" by "groups"
        - "match entry.compare_exchange(0, ours.word_of_both(), Ordering::AcqRel, Ordering::Acquire) {"
        + "match Ok::<usize, usize>(entry.swap(ours.word_of_both(), Ordering::AcqRel)) {"
    in "runtime/src/slab/charged.rs":
        "who is at a limit takes back only what the group itself has in arrays" by "group limits"
        - "self.tables().flat_map(Charged::caches)"
        + "self.tables().take(1).flat_map(Charged::caches)"
    in "runtime/src/group/entry.rs":
        "in a fork child, nobody says where the thread is inside that forked" by "group forks"
        - "entries().for_each(|entry| unsafe { (*(*entry).group).users.recount() });"
        + ""
    in "runtime/src/slab/fit.rs":
        "a cache that falls keeps what its slot was granted" by "array sizes"
        - "Room::of(self.slab().region(), held.slot).give_back(self.shape().beyond(level));"
        + "let _ = (level, Room::of(self.slab().region(), held.slot));"
        "what one slot borrows no other one lends" by "array sizes"
        - "may.then(|| Shares { lent: self.lent + kib as i16, ..self })"
        + "may.then(|| Shares { lent: self.lent + 0 * kib as i16, ..self })"
    in "runtime/src/rcu/synchronize.rs":
        "RCU: the updater fences where it has to order all readers" by "sections in sections", "grace periods"
        - "return kick::fence_all().is_ok();"
        + "fence(Ordering::SeqCst);\n        return true;"
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
        - "if let Some(place) = first_open(domain, 1 - period) {\n                    return Step::Open(place);\n                }"
        + "let _ = first_open(domain, 1 - period);"
        "RCU: only the period that is not in use is waited for" by "sections in sections", "grace periods"
        - "if first_open(domain, period).is_none() {\n                    return end(domain);\n                }"
        + "return end(domain);"
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
        - "self.slots.load(Ordering::Relaxed) as usize * COUNTS"
        + "0"
        "RCU forks: lanes have no marks" by "section forks in handlers"
        - "(seen & !COUNT == mark).then("
        + "true.then("
        "RCU forks: rows are used while a child has inherited sections" by "section forks", "section forks in handlers"
        - "let _ = self.rows.compare_exchange(USED, RESTING, Ordering::Relaxed, Ordering::Relaxed);"
        + "let _ = (self.rows.compare_exchange(USED, RESTING, Ordering::Relaxed, Ordering::Relaxed), self.use_rows_again());"
    in "runtime/src/rcu/queue.rs":
        "RCU deferred: what is sealed waits for the grace period before" by "deferred"
        - "state.segments[open].cookie = next().number();"
        + "state.segments[open].cookie = next().number() - 1;"
    in "runtime/src/rcu/maintenance.rs":
        "RCU deferred: calls are made before their time" by "deferred"
        - "take(domain, queue, Held::take_calls)"
        + "queue.lock(&domain.deferred.contention, here!()).and_then(|mut held| held.take_calls())"
    in "runtime/src/rcu/deferred.rs":
        "RCU deferred: what others have in hands is not waited for" by "deferred"
        - "while queue.is_in_hands(segment) {"
        + "while false {"
    in "runtime/src/slab/aside.rs":
        "RCU deferred: what is laid aside is taken away by a fence" by "deferred"
        - "kick::restart_all().is_ok()"
        + "kick::fence_all().is_ok()"
    in "runtime/src/rcu/worker.rs":
        "RCU deferred: the worker looks before it says that it is idle" by "worker"
        - "self.state.store(IDLE, Ordering::SeqCst);\n        if !has_work() {"
        + "let is_busy = has_work();\n        self.state.store(IDLE, Ordering::SeqCst);\n        if !is_busy {"
    in "runtime/src/rcu/queue.rs":
        "RCU deferred forks: what is full is filled" by "deferred forks"
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
    in "runtime/src/slab/lingering.rs":
        "RCU typesafe: memory goes back at once" by "typesafe"
        - "!(readers.are_absent)()"
        + "false"
        "RCU typesafe: whoever waited frees what others have sealed" by "typesafe"
        - "if is_over(lists.number)"
        + "if true"
        "RCU typesafe: what lingers is taken out by two" by "typesafe"
        - "self.first[list] = unsafe { span.as_ref() }?.next;"
        + "_ = unsafe { span.as_ref() }?.next;"
        "RCU typesafe: who waits for the cache to be empty does not wait for others who empty it" by "typesafe"
        - "for cache in self.listed() {"
        + "for cache in self.listed().filter(|cache| !cache.lingering.is_empty()) {"
    in "runtime/src/page/span.rs":
        "upkeep: pages of objects in use go back with those of free ones" by "upkeep"
        - "let is_free = index < self.total && self.is_free(self.object(index));"
        + "let is_free = index < self.total;"
    in "runtime/src/page/list.rs":
        "upkeep: spans that leave a page list stay linked to the rest of it" by "upkeep"
        - "(*last).next = null_mut();"
        + ""
    in "runtime/src/slab/keep.rs":
        "upkeep: a deserted slot's depot is emptied without the drain lock" by "upkeep"
        - "self.as_only_drainer(here!(), |general| {"
        + "Some(self).map(|general| {"
}
