//! Stacks of magazines, linked through their words 0.
//!
//! Runs at the same time: a stack's owner, or its lock's holder, changes it; any thread pushes to [`Deferred`].

use super::magazine::{Magazine, View, word};
use machine::sync::{AtomicUsize, Ordering, Ordering::Relaxed};

/// A stack of magazines. Single stores make every change. All-zero memory: empty. Its
/// owner, or the lock's holder, changes it; other threads may check whether it is empty.
#[derive(Debug)]
#[repr(transparent)]
pub struct Stack(AtomicUsize);

impl Stack {
    /// An empty stack.
    pub const fn new() -> Self {
        Stack(AtomicUsize::new(0))
    }

    /// Whether it seems empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    /// Pushes a magazine: one store adds it.
    #[inline]
    pub fn push(&self, magazine: Magazine) {
        magazine.view().link().store(self.0.load(Relaxed), Relaxed);
        self.0.store(magazine.into_top(), Relaxed);
    }

    /// Pops the topmost magazine: one store removes it.
    #[inline]
    pub fn pop(&self) -> Option<Magazine> {
        let top = self.iter().next()?;
        self.0.store(top.link().load(Relaxed), Relaxed);
        // SAFETY: it was on the stack.
        Some(unsafe { Magazine::adopt(top.top()) })
    }

    /// Takes the topmost magazine's topmost pointer by one store; the magazine stays.
    pub fn pop_pointer(&self) -> Option<*mut u8> {
        let top = self.iter().next()?;
        let pointer = word(top.top()).load(Relaxed);
        (pointer != 0).then(|| {
            self.0.store(top.top() - 8, Relaxed);
            pointer as *mut u8
        })
    }

    /// Pops one magazine after the other.
    pub fn drain(&self) -> impl Iterator<Item = Magazine> {
        core::iter::from_fn(move || self.pop())
    }

    /// Moves all magazines to a new stack.
    pub fn take(&self) -> Stack {
        let all = Stack(AtomicUsize::new(self.0.load(Relaxed)));
        self.0.store(0, Relaxed);
        all
    }

    /// Moves all magazines of another stack, of which `lowest` is the lowest, on top of this one, in O(1).
    pub fn push_all(&self, other: &Stack, lowest: Option<View<'_>>) {
        let Some(lowest) = lowest else { return };
        lowest.link().store(self.0.load(Relaxed), Relaxed);
        self.0.store(other.0.swap(0, Relaxed), Relaxed);
    }

    /// The magazines on the stack.
    pub fn iter(&self) -> impl Iterator<Item = View<'_>> {
        linked(self.0.load(Relaxed))
    }
}

fn linked<'a>(first: usize) -> impl Iterator<Item = View<'a>> {
    // SAFETY: a link leads to a magazine, or is 0.
    let at = |top: usize| (top != 0).then(|| unsafe { View::at(top) });
    core::iter::successors(at(first), move |view| at(view.link().load(Relaxed)))
}

/// Deferred magazines: objects that signal handlers could not return. They wait for the next slow path, and count as
/// outside of the depot. All-zero memory: empty. Runs at the same time: any thread pushes, also in signal handlers; a
/// drainer takes all.
#[derive(Debug)]
#[repr(transparent)]
pub struct Deferred(AtomicUsize);

impl Deferred {
    /// Defers a magazine to the next drain, as a signal handler must not wait for a shard.
    #[cold]
    pub(super) fn push(&self, magazine: Magazine) {
        let link = |first| {
            magazine.view().link().store(first, Relaxed);
            Some(magazine.view().top())
        };
        // Release pairs with the acquire in `take`: a thread that sees the magazine sees its link and its objects.
        let _ = self.0.fetch_update(Ordering::Release, Relaxed, link);
        magazine.into_top();
    }

    /// Whether no magazine is deferred.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    /// Takes all.
    pub fn take(&self) -> Stack {
        Stack(AtomicUsize::new(self.0.swap(0, Ordering::Acquire)))
    }
}

/// A stack that counts its magazines in the upper bits of its word.
#[derive(Debug)]
#[repr(transparent)]
pub struct CountedStack(AtomicUsize);

/// User-space addresses have 47 bits unless a program asks for more.
const COUNT_SHIFT: u32 = 48;
const ONE: usize = 1 << COUNT_SHIFT;

impl CountedStack {
    /// Number of magazines, perhaps stale.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.load(Relaxed) >> COUNT_SHIFT
    }

    /// The topmost magazine, which another thread may own by now.
    #[inline]
    pub fn topmost(&self) -> Option<View<'_>> {
        self.iter().next()
    }

    /// Pushes a magazine.
    #[inline]
    pub fn push(&self, magazine: Magazine) {
        let word = self.0.load(Relaxed);
        magazine.view().link().store(word % ONE, Relaxed);
        self.0.store(((word / ONE + 1) << COUNT_SHIFT) | magazine.into_top(), Relaxed);
    }

    /// Pops the topmost magazine.
    #[inline]
    pub fn pop(&self) -> Option<Magazine> {
        let (word, top) = (self.0.load(Relaxed), self.topmost()?);
        self.0.store(((word / ONE - 1) << COUNT_SHIFT) | top.link().load(Relaxed), Relaxed);
        // SAFETY: it was on the stack.
        Some(unsafe { Magazine::adopt(top.top()) })
    }

    /// Moves all magazines to a new stack.
    pub fn take(&self) -> Stack {
        let all = Stack(AtomicUsize::new(self.0.load(Relaxed) % ONE));
        self.0.store(0, Relaxed);
        all
    }

    /// The magazines on the stack.
    pub fn iter(&self) -> impl Iterator<Item = View<'_>> {
        linked(self.0.load(Relaxed) % ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::slot::ARRAY;
    use std::vec::Vec;

    #[repr(align(1024))]
    struct Memory([u8; ARRAY]);

    #[test]
    fn joined_stacks_keep_their_orders() {
        let mut memory = [const { Memory([0; ARRAY]) }; 5];
        let all = memory.each_mut().map(|memory| memory.0.as_mut_ptr());
        let [below, above] = [Stack::new(), Stack::new()];
        below.push_all(&above, above.iter().last());
        assert!(below.is_empty());
        all[..2].iter().for_each(|&memory| below.push(Magazine::new(memory)));
        all[2..].iter().for_each(|&memory| above.push(Magazine::new(memory)));
        below.push_all(&above, above.iter().last());
        let popped: Vec<_> = below.drain().map(|magazine| magazine.memory()).collect();
        assert!(above.is_empty() && popped.iter().eq(all.iter().rev()), "{popped:?} of {all:?}");
    }
}
