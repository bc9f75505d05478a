//! The actors of a snapshot as a tree: each actor below its parent.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::{ActorView, Snapshot};
use crate::address::Address;

/// The actors of a node by their parents: each actor without a parent, followed by its children and
/// their children. Its `Display` draws it for people. Created by [`Snapshot::tree`].
#[derive(Debug, Clone)]
pub struct SupervisionTree<'a> {
    /// In the order of the drawing. (A flat list, so that a tree of any depth is walked and dropped
    /// without recursion.)
    branches: Vec<Branch<'a>>,
}

/// An actor in a [`SupervisionTree`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Branch<'a> {
    /// The actor.
    pub actor: &'a ActorView,
    /// The number of actors above it: its parent, the parent's parent, and so on.
    pub depth: usize,
}

impl Snapshot {
    /// Returns the actors by their parents. Children of one parent are ordered by their names;
    /// actors without a name come last, ordered by their numbers.
    pub fn tree(&self) -> SupervisionTree<'_> {
        let known: HashSet<&Address> = self.actors.iter().map(|actor| &actor.address).collect();
        let mut families = HashMap::<Option<&Address>, Vec<&ActorView>>::new();
        for actor in &self.actors {
            // An actor whose parent ended while the snapshot was taken becomes a root.
            let parent = actor.parent.as_ref().filter(|parent| known.contains(parent));
            families.entry(parent).or_default().push(actor);
        }
        for family in families.values_mut() {
            // Reversed, because the last one is taken first.
            family.sort_by(|a, b| order(b).cmp(&order(a)));
        }
        let mut branches = Vec::with_capacity(self.actors.len());
        let mut open: Vec<_> = families.remove(&None).into_iter().collect();
        while let Some(family) = open.last_mut() {
            let Some(actor) = family.pop() else {
                open.pop();
                continue;
            };
            branches.push(Branch { actor, depth: open.len() - 1 });
            open.extend(families.remove(&Some(&actor.address)));
        }
        SupervisionTree { branches }
    }
}

/// Returns the sort key of the children of one parent.
fn order(actor: &ActorView) -> (bool, &str, u32, u32) {
    let name = actor.address.name();
    let key = actor.address.identity().map(|identity| identity.key);
    let (index, generation) = key.map_or((0, 0), |key| (key.index, key.generation));
    (name.is_none(), name.unwrap_or_default(), index, generation)
}

impl<'a> SupervisionTree<'a> {
    /// Returns all actors in the order of the drawing: each actor before its children.
    pub fn branches(&self) -> &[Branch<'a>] {
        &self.branches
    }

    /// Returns the actors without a parent.
    pub fn roots(&self) -> impl Iterator<Item = &'a ActorView> {
        self.branches.iter().filter(|branch| branch.depth == 0).map(|branch| branch.actor)
    }

    /// Returns the children of an actor.
    pub fn children(&self, of: &Address) -> impl Iterator<Item = &'a ActorView> {
        let is_child = move |branch: &&Branch<'_>| branch.actor.parent.as_ref() == Some(of);
        self.branches.iter().filter(is_child).map(|branch| branch.actor)
    }
}

/// Maximum levels of indentation: no screen is wider, and the width of a format is limited.
const INDENTED_MAX: usize = 100;

/// Draws the tree with one line per actor, indented by its depth.
impl fmt::Display for SupervisionTree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Branch { actor, depth } in &self.branches {
            let indent = 2 * depth.min(&INDENTED_MAX);
            writeln!(f, "{:indent$}{actor}", "")?;
        }
        Ok(())
    }
}
