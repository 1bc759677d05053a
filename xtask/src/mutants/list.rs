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

const DRAINING: &[&str] = &["remote drain"];
const HEAP: &[&str] = &["depot exchange", "page map", "remote drain"];
const CACHES: &[&str] = &["cache tuning"];
const SIZES: &[&str] = &["array sizes"];
const FORKS: &[&str] = &["fork", "fork in handlers"];
const FALLBACK: &[&str] = &["generations"];
const WATCHED: &[&str] = &["watched cache"];
const GROUPS: &[&str] = &["groups"];
const GROUP_LIMITS: &[&str] = &["group limits"];
const GROUP_FORKS: &[&str] = &["group forks"];
const DEFERRED: &[&str] = &["deferred"];
const WORKER: &[&str] = &["worker"];
const DEFERRED_FORKS: &[&str] = &["deferred forks"];
const REGISTERED: &[&str] = &["registered"];
const REGISTERED_FORKS: &[&str] = &["registered forks"];
const TYPESAFE: &[&str] = &["typesafe"];
const UPKEEP: &[&str] = &["upkeep"];
const GRACE: &[&str] = &["sections in sections", "grace periods"];
const HANDS: &[&str] = &["hand over hand"];
const FORKS_IN_HANDLERS: &[&str] = &["section forks in handlers"];
const FORKS_OF_SECTIONS: &[&str] = &["section forks", "section forks in handlers"];

/// All of them.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        what: "a drainer does not restart the slot that it drains",
        file: "runtime/src/slab/drain.rs",
        from: "let restarted = kick::restart_all().is_ok();",
        to: "let restarted = true;",
        protocols: DRAINING,
    },
    Mutant {
        what: "a drainer fences where it has to restart",
        file: "runtime/src/slab/drain.rs",
        from: "let restarted = kick::restart_all().is_ok();",
        to: "let restarted = kick::fence_all().is_ok();",
        protocols: DRAINING,
    },
    Mutant {
        what: "a drainer does not look whether the word still has its mark",
        file: "runtime/src/slab/drain.rs",
        from: "Some(array) if kept && restarted =>",
        to: "Some(array) if restarted =>",
        protocols: DRAINING,
    },
    Mutant {
        what: "two drainers at a time",
        file: "runtime/src/slab/drain.rs",
        from: "let acquired = self.slab.registry().rare.0.drain_lock.acquire(&self.slab.locks().drain, site);",
        to: "let acquired = { self.slab.registry().rare.0.drain_lock.try_acquire(); Acquired::Clean };",
        protocols: DRAINING,
    },
    Mutant {
        what: "a cache is tuned as it would be drained before it is restarted",
        file: "runtime/src/slab/drain.rs",
        from: "let restarted = kick::restart_all().is_ok();",
        to: "let restarted = why == Why::Tune || kick::restart_all().is_ok();",
        protocols: CACHES,
    },
    Mutant {
        what: "who ends a cache does not keep those away who go over all",
        file: "runtime/src/slab/end.rs",
        from: "self.general().as_only_drainer(here!(), end).unwrap_or(Err(Alive::Interrupting))",
        to: "end(self.general())",
        protocols: &["cache creation"],
    },
    Mutant {
        what: "two threads that create caches do not wait for each other",
        file: "runtime/src/slab/panels.rs",
        from: "if self.lock.acquire(&slab.locks().panels, site) == Acquired::WouldDeadlock {",
        to: "if { self.lock.try_acquire(); false } {",
        protocols: &["cache creation"],
    },
    Mutant {
        what: "a row of the slab table may be half of one cache, half of the next one",
        file: "runtime/src/slab/table.rs",
        from: "cache.is_none_or(|cache| cache.label().is_still(turn)).then_some(reading)",
        to: "cache.is_none_or(|cache| cache.label().is_still(turn) || turn > 0).then_some(reading)",
        protocols: &["cache creation"],
    },
    Mutant {
        what: "an array that could not be installed is forgotten",
        file: "runtime/src/slab/put.rs",
        from: "if Self::is_drained(word) || !self.replace(slot, false, word, next.give_word()) {",
        to: "if Self::is_drained(word) || (!self.replace(slot, false, word, next.give_word()) && slot > 1 << 20) {",
        protocols: HEAP,
    },
    Mutant {
        what: "a span that changes hands keeps its owner",
        file: "runtime/src/slab/take.rs",
        from: "(*span).set_owner(own.slot);",
        to: "",
        protocols: &["span owners"],
    },
    Mutant {
        what: "a process in which no thread has a slot divides by their number",
        file: "runtime/src/slab/shape.rs",
        from: "let slots = slot::in_use().max(1);",
        to: "let slots = slot::in_use();",
        protocols: &["heap upgrade"],
    },
    Mutant {
        what: "a lock is released by a load and a store",
        file: "machine/host/src/sync/lock.rs",
        from: "let word = self.word.swap(0, Ordering::Release);",
        to: "let word = self.word.load(Ordering::Relaxed); self.word.store(0, Ordering::Release);",
        protocols: HEAP,
    },
    Mutant {
        what: "a lock is taken that somebody took meanwhile",
        file: "machine/host/src/sync/lock.rs",
        from: "self.word.compare_exchange(word, ours, Ordering::Acquire, Ordering::Relaxed).is_ok()",
        to: "self.word.load(Ordering::Relaxed) == word && { self.word.store(ours, Ordering::Relaxed); true }",
        protocols: HEAP,
    },
    Mutant {
        what: "a lock does not count while it is waited for",
        file: "machine/host/src/sync/lock.rs",
        from: "Self::count_held();\n        let outcome = self.wait_for_it();",
        to: "let outcome = self.wait_for_it();\n        Self::count_held();",
        protocols: &["lock ranks"],
    },
    Mutant {
        what: "a lock counts no more before a sleeper was woken",
        file: "machine/host/src/sync/lock.rs",
        from: "if word & WAITERS != 0 {\n            wake_one(&self.word);\n        }\n        Self::uncount_held();",
        to: "Self::uncount_held();\n        if word & WAITERS != 0 {\n            wake_one(&self.word);\n        }",
        protocols: &["lock ranks"],
    },
    Mutant {
        what: "a fork child waits for the thread of its parent that made the heap",
        file: "machine/host/src/root.rs",
        from: "expected = if other == process { 0 } else { other };",
        to: "let _ = other; expected = 0;",
        protocols: FORKS,
    },
    Mutant {
        what: "whoever makes the heap asks for its process before handlers can fork no more",
        file: "machine/host/src/root.rs",
        from: "    thread::without_signals(|| {\n        // Here, where no handler forks any more: the child would have the parent's.\n        let process = process::id();",
        to: "    let process = process::id();\n    thread::without_signals(|| {",
        protocols: &["fork in handlers"],
    },
    Mutant {
        what: "a fork child does not know that the threads of its parent are gone",
        file: "machine/host/src/thread/identity.rs",
        from: "GONE.store(NEXT_IDENTITY.load(Ordering::Relaxed) - 1, Ordering::Relaxed);",
        to: "GONE.load(Ordering::Relaxed);",
        protocols: FORKS,
    },
    Mutant {
        what: "two threads make the region",
        file: "machine/host/src/root.rs",
        from: "while let Err(other) = MAKING.compare_exchange(",
        to: "if let Err(other) = MAKING.compare_exchange(",
        protocols: &["heap upgrade"],
    },
    Mutant {
        what: "whoever waited for the region makes another one",
        file: "machine/host/src/root.rs",
        from: "if !is_installed()\n",
        to: "if AREA.load(Ordering::Relaxed).is_null()\n",
        protocols: &["heap upgrade"],
    },
    Mutant {
        what: "a thread adopts a dead one's slot that another one adopts at the same time",
        file: "machine/host/src/slot/fallback.rs",
        from: "owner.compare_exchange(old, after(old, me), Ordering::Acquire, Ordering::Relaxed).is_ok().then_some(slot)",
        to: "{ owner.store(after(old, me), Ordering::Relaxed); Some(slot) }",
        protocols: FALLBACK,
    },
    Mutant {
        what: "a dead thread's slot is drained while somebody adopts it",
        file: "machine/host/src/slot/fallback.rs",
        from: "owner.compare_exchange(old, borrowed, Ordering::Acquire, Ordering::Relaxed).ok()?;",
        to: "owner.load(Ordering::Acquire);",
        protocols: FALLBACK,
    },
    Mutant {
        what: "an owner is replaced that came since, under a dead one's number",
        file: "machine/host/src/slot/fallback.rs",
        from: "((owner >> 32) + 1) << 32 | u64::from(number)",
        to: "owner >> 32 << 32 | u64::from(number)",
        protocols: &["slots of the dead"],
    },
    Mutant {
        what: "a cache is shrunk by a thread that nobody noticed, so that a fork in its midst goes unnoticed, too",
        file: "runtime/src/slab/object_cache.rs",
        from: "sharing::enter();\n        self.handle().shrink()",
        to: "crate::percpu::enter();\n        self.handle().shrink()",
        protocols: WATCHED,
    },
    Mutant {
        what: "who empties arrays leaves out the slot that it is in by then",
        file: "runtime/src/slab/drain.rs",
        from: "let others = 0..slot::in_use();",
        to: "let own = slot::current(); let others = (0..slot::in_use()).filter(|&slot| Some(slot) != own);",
        protocols: GROUP_LIMITS,
    },
    Mutant {
        what: "a group is charged without a look at its limit",
        file: "runtime/src/slab/account.rs",
        from: "self.charge.limited_add(units, limit as i64)",
        to: "self.charge.try_add(units).is_ok()",
        protocols: GROUP_LIMITS,
    },
    Mutant {
        what: "whoever makes a group's cache enters it, also over another's",
        file: "runtime/src/group/inner.rs",
        from: "match entry.compare_exchange(0, ours.word_of_both(), Ordering::AcqRel, Ordering::Acquire) {",
        to: "match Ok::<usize, usize>(entry.swap(ours.word_of_both(), Ordering::AcqRel)) {",
        protocols: GROUPS,
    },
    Mutant {
        what: "in a fork child, nobody says where the thread is inside that forked",
        file: "runtime/src/group/entry.rs",
        from: "entries().for_each(|entry| unsafe { (*(*entry).group).users.recount() });",
        to: "",
        protocols: GROUP_FORKS,
    },
    Mutant {
        what: "a cache that falls keeps what its slot was granted",
        file: "runtime/src/slab/fit.rs",
        from: "Room::of(self.slab().region(), held.slot).give_back(self.shape().beyond(level));",
        to: "let _ = (level, Room::of(self.slab().region(), held.slot));",
        protocols: SIZES,
    },
    Mutant {
        what: "what one slot borrows no other one lends",
        file: "runtime/src/slab/fit.rs",
        from: "may.then(|| Shares { lent: self.lent + kib as i16, ..self })",
        to: "may.then(|| Shares { lent: self.lent + 0 * kib as i16, ..self })",
        protocols: SIZES,
    },
    Mutant {
        what: "RCU: the updater fences where it has to order all readers",
        file: "runtime/src/rcu/grace.rs",
        from: "return kick::fence_all().is_ok();",
        to: "fence(Ordering::SeqCst);\n        return true;",
        protocols: GRACE,
    },
    Mutant {
        what: "RCU: begins are counted before ends",
        file: "runtime/src/rcu/domain.rs",
        from: "let ended = row.ended.load(Ordering::Acquire).wrapping_add(row.ended_elsewhere.load(Ordering::Acquire));\n                row.begun.load(Ordering::Acquire) == ended",
        to: "let begun = row.begun.load(Ordering::Acquire);\n                row.ended.load(Ordering::Acquire).wrapping_add(row.ended_elsewhere.load(Ordering::Acquire)) == begun",
        protocols: GRACE,
    },
    Mutant {
        what: "RCU: begins are counted before ends, in lanes",
        file: "runtime/src/rcu/domain.rs",
        from: "let ended = words.ended.load(Ordering::Acquire);\n                words.begun.load(Ordering::Acquire) == ended",
        to: "let begun = words.begun.load(Ordering::Acquire);\n                words.ended.load(Ordering::Acquire) == begun",
        protocols: GRACE,
    },
    Mutant {
        what: "RCU: an end is counted where the thread is",
        file: "runtime/src/rcu/reader.rs",
        from: "if !unsafe { slot::count_in::<TO_END>(open.0) } {",
        to: "let here = slot::current_if_given().unwrap_or(0) as usize;\n    let there = open.0.at.wrapping_add((here * slot::COUNTS).wrapping_sub(open.0.slot as usize * slot::COUNTS));\n    let is_in_row = open.0.slot >> 31 == 0;\n    let now = if is_in_row { Counted { at: there, slot: here as u32 } } else { open.0 };\n    if !unsafe { slot::count_in::<TO_END>(now) } {",
        protocols: GRACE,
    },
    Mutant {
        what: "RCU: readers stay in the same period",
        file: "runtime/src/rcu/grace.rs",
        from: "domain.turn();",
        to: "",
        protocols: HANDS,
    },
    Mutant {
        what: "RCU: the period that is not in use is not waited for",
        file: "runtime/src/rcu/grace.rs",
        from: "if let Some(place) = self.first_open(domain, 1 - period) {\n                        return Step::Open(place);\n                    }",
        to: "let _ = self.first_open(domain, 1 - period);",
        protocols: GRACE,
    },
    Mutant {
        what: "RCU: only the period that is not in use is waited for",
        file: "runtime/src/rcu/grace.rs",
        from: "if self.first_open(domain, period).is_none() {\n                        return self.end(domain);\n                    }",
        to: "return self.end(domain);",
        protocols: GRACE,
    },
    Mutant {
        what: "RCU: the number is read before what was unlinked is",
        file: "runtime/src/rcu/grace.rs",
        from: "Cookie(grace.begun.0.load(Ordering::SeqCst) + 1)",
        to: "Cookie(grace.begun.0.load(Ordering::SeqCst))",
        protocols: GRACE,
    },
    Mutant {
        what: "RCU forks: a section is counted as the thread's after it is in a row",
        file: "runtime/src/rcu/reader.rs",
        from: "if thread::descend() {\n        return open_slow();\n    }\n    // SAFETY: the thread is ready: it has a slot, and there are counts for all possible ones.\n    Open(unsafe { slot::count(&Domain::of_process().counts) })",
        to: "if thread::level() <= 0 {\n        thread::descend();\n        return open_slow();\n    }\n    let counted = unsafe { slot::count(&Domain::of_process().counts) };\n    thread::descend();\n    Open(counted)",
        protocols: FORKS_IN_HANDLERS,
    },
    Mutant {
        what: "RCU forks: a step that was interrupted by a fork goes on in the child",
        file: "runtime/src/rcu/grace.rs",
        from: "if domain.has_inherited() {\n            self.stage",
        to: "if false {\n            self.stage",
        protocols: FORKS_IN_HANDLERS,
    },
    Mutant {
        what: "RCU forks: younger sections count as inherited ones",
        file: "runtime/src/rcu/domain.rs",
        from: "if Base::of(thread::level()) == Base::Inherited && since < 0 {",
        to: "if Base::of(thread::level()) == Base::Inherited {",
        protocols: FORKS_OF_SECTIONS,
    },
    Mutant {
        what: "RCU forks: in a child, rows still have the parent's sections",
        file: "runtime/src/rcu/domain.rs",
        from: "self.slots.load(Ordering::Relaxed) as usize * COUNTS",
        to: "0",
        protocols: FORKS_OF_SECTIONS,
    },
    Mutant {
        what: "RCU forks: lanes have no marks",
        file: "runtime/src/rcu/domain.rs",
        from: "(seen & !COUNT == mark).then(",
        to: "true.then(",
        protocols: FORKS_IN_HANDLERS,
    },
    Mutant {
        what: "RCU forks: a thread does not ask whether it was in the middle of opening a section when it forked",
        file: "runtime/src/rcu/domain.rs",
        from: "if thread::level() == INHERITED {",
        to: "if false {",
        protocols: FORKS_IN_HANDLERS,
    },
    Mutant {
        what: "RCU forks: rows are used while a child has inherited sections",
        file: "runtime/src/rcu/domain.rs",
        from: "let _ = self.rows.compare_exchange(USED, RESTING, Ordering::Relaxed, Ordering::Relaxed);",
        to: "let _ = (self.rows.compare_exchange(USED, RESTING, Ordering::Relaxed, Ordering::Relaxed), self.use_rows_again());",
        protocols: FORKS_OF_SECTIONS,
    },
    Mutant {
        what: "RCU deferred: what is sealed waits for the grace period before",
        file: "runtime/src/rcu/queue.rs",
        from: "state.segments[open].cookie = next().number();",
        to: "state.segments[open].cookie = next().number() - 1;",
        protocols: DEFERRED,
    },
    Mutant {
        what: "RCU deferred: calls are made before their time",
        file: "runtime/src/rcu/deferred.rs",
        from: "if self.grace.is_over(held.sealed()?) { held.take_calls() } else { None }",
        to: "held.take_calls()",
        protocols: DEFERRED,
    },
    Mutant {
        what: "RCU deferred: what others have in hands is not waited for",
        file: "runtime/src/rcu/deferred.rs",
        from: "while queue.is_in_hands(segment) {",
        to: "while false {",
        protocols: DEFERRED,
    },
    Mutant {
        what: "RCU deferred: what is laid aside is taken away by a fence",
        file: "runtime/src/slab/aside.rs",
        from: "kick::restart_all().is_ok()",
        to: "kick::fence_all().is_ok()",
        protocols: DEFERRED,
    },
    Mutant {
        what: "RCU deferred: the worker looks before it says that it is idle",
        file: "runtime/src/rcu/worker.rs",
        from: "worker.state.store(IDLE, Ordering::SeqCst);\n        if !domain.deferred.is_busy() {",
        to: "let is_busy = domain.deferred.is_busy();\n        worker.state.store(IDLE, Ordering::SeqCst);\n        if !is_busy {",
        protocols: WORKER,
    },
    Mutant {
        what: "RCU deferred forks: what is full is filled",
        file: "runtime/src/rcu/queue.rs",
        from: "if Batch::from_word(self.state().filling[class]).is_some_and(Batch::is_full) {",
        to: "if false {",
        protocols: DEFERRED_FORKS,
    },
    Mutant {
        what: "RCU registered: a report may take back what a kick in its midst reported",
        file: "runtime/src/rcu/qsbr.rs",
        from: "same if same == number => return,",
        to: "_ => return,",
        protocols: REGISTERED,
    },
    Mutant {
        what: "RCU registered: who comes back reads before that is seen",
        file: "runtime/src/rcu/qsbr.rs",
        from: "self.see(domain, || fence(Ordering::SeqCst));",
        to: "self.see(domain, || ());",
        protocols: REGISTERED,
    },
    Mutant {
        what: "RCU registered: a kick in a section reports",
        file: "runtime/src/rcu/qsbr.rs",
        from: "let is_outside = record.depth.load(Ordering::Relaxed) == 0;",
        to: "let is_outside = true;",
        protocols: REGISTERED,
    },
    Mutant {
        what: "RCU registered: who reported before the grace period began is not waited for",
        file: "runtime/src/rcu/qsbr.rs",
        from: "seen == 0 || seen > number",
        to: "seen == 0 || seen >= number",
        protocols: REGISTERED,
    },
    Mutant {
        what: "RCU registered forks: the readers of all threads are a child's",
        file: "runtime/src/rcu/domain.rs",
        from: "self.registered.keep_own();",
        to: "",
        protocols: REGISTERED_FORKS,
    },
    Mutant {
        what: "RCU typesafe: memory goes back at once",
        file: "runtime/src/slab/lingering.rs",
        from: "!(readers.are_absent)()",
        to: "false",
        protocols: TYPESAFE,
    },
    Mutant {
        what: "RCU typesafe: whoever waited frees what others have sealed",
        file: "runtime/src/slab/lingering.rs",
        from: "if is_over(lists.number)",
        to: "if true",
        protocols: TYPESAFE,
    },
    Mutant {
        what: "RCU typesafe: what lingers is taken out by two",
        file: "runtime/src/slab/lingering.rs",
        from: "self.first[list] = unsafe { span.as_ref() }?.next;",
        to: "_ = unsafe { span.as_ref() }?.next;",
        protocols: TYPESAFE,
    },
    Mutant {
        what: "RCU typesafe: who waits for the cache to be empty does not wait for others who empty it",
        file: "runtime/src/slab/lingering.rs",
        from: "for cache in self.listed() {",
        to: "for cache in self.listed().filter(|cache| !cache.lingering.is_empty()) {",
        protocols: TYPESAFE,
    },
    Mutant {
        what: "upkeep: pages of objects in use go back with those of free ones",
        file: "runtime/src/page/span.rs",
        from: "let is_free = index < self.total && self.is_free(self.object(index));",
        to: "let is_free = index < self.total;",
        protocols: UPKEEP,
    },
    Mutant {
        what: "upkeep: spans that leave a page list stay linked to the rest of it",
        file: "runtime/src/page/list.rs",
        from: "(*last).next = null_mut();",
        to: "",
        protocols: UPKEEP,
    },
    Mutant {
        what: "upkeep: a deserted slot's depot is emptied without the drain lock",
        file: "runtime/src/slab/keep.rs",
        from: "self.as_only_drainer(here!(), |general| {",
        to: "Some(self).map(|general| {",
        protocols: UPKEEP,
    },
];
