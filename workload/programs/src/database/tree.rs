//! A B+ tree of pages, from keys to bytes. Leaves hold the cells and are linked from left to right; in an inner page,
//! each cell leads to a child:
//!
//! ```text
//!   inner   ["" → A] ["f" → B] ["p" → C]      a child's keys are not below its cell's key, and below the next one's;
//!              │        │         │           the first cell's key stands for "anything smaller"
//!   leaves   A: a c  ▶ B: f k m ▶ C: p q
//! ```
//!
//! A page that has no room for a cell is split; one that is less than a quarter full is joined with a neighbour if both
//! fit in one. All leaves are equally deep.

use super::page::{CELL_HEADER, HEADER, MAX_CELL, Page, SIZE};

/// A page, as its place in the tree's list.
type PageId = u32;

/// No page.
const NONE: PageId = PageId::MAX;

/// The room for cells.
const ROOM: usize = SIZE - HEADER;

/// A page that has less than this is joined with another.
const FEW: usize = ROOM / 4;

/// A tree.
pub struct Tree {
    pages: Vec<Option<Page>>,
    free: Vec<PageId>,
    root: PageId,
    /// How many inner pages stand above each leaf.
    height: u32,
}

/// What a split leaves for the page above: the first key of the new page, and where that is.
struct Split {
    key: Box<[u8]>,
    page: PageId,
}

impl Tree {
    /// A tree without cells.
    pub fn new() -> Tree {
        let mut tree = Tree { pages: Vec::new(), free: Vec::new(), root: 0, height: 0 };
        tree.root = tree.add(leaf(NONE));
        tree
    }

    /// Whether a cell with these parts can be inserted, and its key into an inner page, too.
    pub fn fits(key: &[u8], rest: &[u8]) -> bool {
        key.len() + rest.len().max(size_of::<PageId>()) <= MAX_CELL - CELL_HEADER
    }

    /// What belongs to a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let leaf = self.page(self.leaf_for(key));
        leaf.search(key).ok().map(|place| leaf.rest(place))
    }

    /// Inserts a key with what belongs to it, in the place of what did. The parts fit, see [`Tree::fits`].
    pub fn insert(&mut self, key: &[u8], rest: &[u8]) {
        debug_assert!(Tree::fits(key, rest));
        if let Some(split) = self.insert_below(self.root, self.height, key, rest) {
            let mut root = Page::new();
            root.insert(0, b"", &self.root.to_le_bytes());
            root.insert(1, &split.key, &split.page.to_le_bytes());
            self.root = self.add(root);
            self.height += 1;
        }
    }

    /// Removes a key. Whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let found = self.remove_below(self.root, self.height, key);
        while self.height > 0 && self.page(self.root).len() == 1 {
            let only = child(self.page(self.root), 0);
            self.give_back(self.root);
            self.root = only;
            self.height -= 1;
        }
        found
    }

    /// The cells from a key on, in order.
    pub fn from<'t>(&'t self, key: &[u8]) -> impl Iterator<Item = (&'t [u8], &'t [u8])> + use<'t> {
        let leaf = self.leaf_for(key);
        let first = self.page(leaf).search(key).unwrap_or_else(|place| place);
        let leaves =
            std::iter::successors(Some(leaf), |leaf| Some(self.page(*leaf).next()).filter(|next| *next != NONE));
        leaves
            .flat_map(|leaf| (0..self.page(leaf).len()).map(move |place| (leaf, place)))
            .skip(first)
            .map(|(leaf, place)| (self.page(leaf).key(place), self.page(leaf).rest(place)))
    }

    fn leaf_for(&self, key: &[u8]) -> PageId {
        (0..self.height).fold(self.root, |page, _| child(self.page(page), place_of_child(self.page(page), key)))
    }

    fn insert_below(&mut self, id: PageId, height: u32, key: &[u8], rest: &[u8]) -> Option<Split> {
        if height == 0 {
            let page = self.page_mut(id);
            let place = page.search(key).inspect(|place| page.remove(*place)).unwrap_or_else(|place| place);
            return self.insert_cell(id, place, key, rest);
        }
        let place = place_of_child(self.page(id), key);
        let split = self.insert_below(child(self.page(id), place), height - 1, key, rest)?;
        self.insert_cell(id, place + 1, &split.key, &split.page.to_le_bytes())
    }

    /// Inserts a cell into a page, which is split if it has no room.
    fn insert_cell(&mut self, id: PageId, place: usize, key: &[u8], rest: &[u8]) -> Option<Split> {
        let page = self.page_mut(id);
        if page.insert(place, key, rest) {
            return None;
        }
        let mut upper = page.split();
        let (half, place) = if place <= page.len() { (&mut *page, place) } else { (&mut upper, place - page.len()) };
        // A largest cell is less than the half page that is free now.
        assert!(half.insert(place, key, rest), "half a page has room");
        upper.set_next(page.next());
        let key = upper.key(0).into();
        let new = self.add(upper);
        self.page_mut(id).set_next(new);
        Some(Split { key, page: new })
    }

    fn remove_below(&mut self, id: PageId, height: u32, key: &[u8]) -> bool {
        if height == 0 {
            let page = self.page_mut(id);
            return page.search(key).map(|place| page.remove(place)).is_ok();
        }
        let place = place_of_child(self.page(id), key);
        let below = child(self.page(id), place);
        let found = self.remove_below(below, height - 1, key);
        if found && self.page(below).used() < FEW {
            self.join(id, place);
        }
        found
    }

    /// Joins a child of a page with a neighbour if both fit in one page.
    fn join(&mut self, parent: PageId, place: usize) {
        let children = self.page(parent).len();
        for left in [place.wrapping_sub(1), place] {
            if left >= children || left + 1 >= children {
                continue;
            }
            let (one, other) = (child(self.page(parent), left), child(self.page(parent), left + 1));
            if self.page(one).used() + self.page(other).used() <= ROOM {
                let upper = self.give_back(other);
                self.page_mut(one).append(&upper);
                self.page_mut(one).set_next(upper.next());
                self.page_mut(parent).remove(left + 1);
                return;
            }
        }
    }

    fn page(&self, id: PageId) -> &Page {
        self.pages[id as usize].as_ref().expect("only pages in use are referred to")
    }

    fn page_mut(&mut self, id: PageId) -> &mut Page {
        self.pages[id as usize].as_mut().expect("only pages in use are referred to")
    }

    fn add(&mut self, page: Page) -> PageId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.pages.push(None);
            self.pages.len() as PageId - 1
        });
        self.pages[id as usize] = Some(page);
        id
    }

    fn give_back(&mut self, id: PageId) -> Page {
        self.free.push(id);
        self.pages[id as usize].take().expect("only pages in use are given back")
    }
}

fn leaf(next: PageId) -> Page {
    let mut page = Page::new();
    page.set_next(next);
    page
}

/// The place of the cell that leads to a key: the last one whose key is not larger, or the first.
fn place_of_child(page: &Page, key: &[u8]) -> usize {
    page.search(key).unwrap_or_else(|place| place.saturating_sub(1))
}

fn child(page: &Page, place: usize) -> PageId {
    PageId::from_le_bytes(page.rest(place).try_into().expect("an inner cell holds a page's number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use std::collections::BTreeMap;

    type Model = BTreeMap<Vec<u8>, Vec<u8>>;

    impl Tree {
        /// Panics unless the tree is what the head of this file promises. Returns the leaves from left to right.
        fn check_valid(&self, id: PageId, height: u32, low: &[u8], high: Option<&[u8]>) -> Vec<PageId> {
            let page = self.page(id);
            let keys: Vec<&[u8]> = (0..page.len()).map(|place| page.key(place)).collect();
            assert!(keys.is_sorted_by(|one, other| one < other), "keys rise");
            assert!(page.used() <= ROOM);
            if height == 0 {
                assert!(
                    keys.iter().all(|key| *key >= low && high.is_none_or(|high| *key < high)),
                    "keys are in their leaf"
                );
                return vec![id];
            }
            assert!(!keys.is_empty());
            let mut leaves = Vec::new();
            for (place, key) in keys.iter().enumerate() {
                let low = if place == 0 { low } else { key };
                let high = keys.get(place + 1).copied().or(high);
                leaves.extend(self.check_valid(child(page, place), height - 1, low, high));
            }
            leaves
        }

        fn check(&self, model: &Model) {
            let leaves = self.check_valid(self.root, self.height, b"", None);
            for (leaf, next) in leaves.iter().zip(leaves.iter().skip(1).chain([&NONE])) {
                assert_eq!(self.page(*leaf).next(), *next, "leaves are linked");
            }
            let in_use = self.pages.iter().filter(|page| page.is_some()).count();
            assert_eq!(in_use + self.free.len(), self.pages.len());
            assert!(
                self.from(b"").eq(model.iter().map(|(key, rest)| (&key[..], &rest[..]))),
                "it holds what it should"
            );
        }
    }

    fn random_key(rng: &mut Rng) -> Vec<u8> {
        let number = rng.u32(0..3000);
        let mut key = format!("{number}").into_bytes();
        key.resize(key.len() + (number % 97) as usize, b'x');
        key
    }

    #[test]
    fn it_agrees_with_a_map_while_it_grows_and_shrinks() {
        let mut rng = Rng::with_seed(1);
        let (mut tree, mut model) = (Tree::new(), Model::new());
        let mut tallest = 0;
        for step in 0..12_000 {
            let key = random_key(&mut rng);
            assert_eq!(tree.get(&key), model.get(&key).map(|rest| &rest[..]));
            // It grows for a while, then shrinks to almost nothing, twice.
            let grows = (step / 3000) % 2 == 0;
            if rng.u32(0..10) < if grows { 8 } else { 1 } {
                let rest = vec![rng.u8(..); rng.usize(0..200)];
                tree.insert(&key, &rest);
                model.insert(key, rest);
            } else {
                let key = model.range(key.clone()..).next().map_or(key, |(key, _)| key.clone());
                assert_eq!(tree.remove(&key), model.remove(&key).is_some());
            }
            if step % 100 == 0 {
                tree.check(&model);
            }
            tallest = tallest.max(tree.height);
        }
        assert!(tallest >= 2, "inner pages were split, too");
        for key in model.keys() {
            assert!(tree.remove(key));
        }
        tree.check(&Model::new());
        assert_eq!((tree.height, tree.pages.len() - tree.free.len()), (0, 1), "one empty leaf is left");
    }

    #[test]
    fn ranges_begin_where_they_should() {
        let (mut tree, mut model) = (Tree::new(), Model::new());
        for number in (0..2000u32).step_by(3) {
            tree.insert(&number.to_be_bytes(), &[1; 20]);
            model.insert(number.to_be_bytes().to_vec(), vec![1; 20]);
        }
        tree.check(&model);
        for start in (0..2100u32).step_by(7) {
            let found = tree.from(&start.to_be_bytes()).take(5).map(|(key, _)| key.to_vec());
            assert!(found.eq(model.range(start.to_be_bytes().to_vec()..).take(5).map(|(key, _)| key.clone())));
        }
    }

    #[test]
    fn the_largest_cells_can_be_inserted_anywhere() {
        let mut rng = Rng::with_seed(3);
        let (mut tree, mut model) = (Tree::new(), Model::new());
        for _ in 0..500 {
            let mut key = random_key(&mut rng);
            key.resize(rng.usize(1..400), b'y');
            let rest = vec![0; MAX_CELL - CELL_HEADER - key.len()];
            assert!(Tree::fits(&key, &rest));
            tree.insert(&key, &rest);
            model.insert(key, rest);
        }
        tree.check(&model);
    }
}
