//! The names of a simulated disk: directories as programs see them, and as the disk has them.
//!
//! - sim_tree-1. An operation on names is durable once a directory that it changed was synced, and
//!   so are all earlier operations in all directories involved: nothing durable depends on
//!   something that is not.
//! - sim_tree-2. After a power loss, each pending operation has happened or not, independently of
//!   the others. A rename is one operation. The contents of a lost directory are lost too.
//! - sim_tree-3. A file or directory has at most one name, on the disk too.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::file::SimBytes;
use super::random::Random;
use crate::DirEntry;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(pub(super) usize);

const ROOT: NodeId = NodeId(0);

/// The tree of names. Nodes are never removed: an open file outlives its name.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The operations since the directories involved were synced, in order.
    pending: Vec<Operation>,
}

#[derive(Debug)]
enum Node {
    File(SimBytes),
    Dir(Dir),
}

type Names = BTreeMap<OsString, NodeId>;

#[derive(Debug, Default)]
struct Dir {
    current: Names,
    durable: Names,
}

/// Changes of names that survive together or not at all.
type Operation = Vec<Edit>;

#[derive(Clone, Debug)]
struct Edit {
    dir: NodeId,
    name: OsString,
    node: NodeId,
    kind: EditKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EditKind {
    Add,
    Remove,
}

pub(super) fn os_error(errno: libc::c_int) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree { nodes: vec![Node::Dir(Dir::default())], pending: Vec::new() }
    }

    /// The node at this path.
    pub(super) fn at(&self, path: &Path) -> io::Result<NodeId> {
        names_of(path).into_iter().try_fold(ROOT, |dir, name| {
            self.dir(dir)?.current.get(name).copied().ok_or_else(|| os_error(libc::ENOENT))
        })
    }

    pub(super) fn file_at(&self, path: &Path) -> io::Result<NodeId> {
        let id = self.at(path)?;
        match self.nodes[id.0] {
            Node::File(_) => Ok(id),
            Node::Dir(_) => Err(os_error(libc::EISDIR)),
        }
    }

    pub(super) fn dir_at(&self, path: &Path) -> io::Result<NodeId> {
        let id = self.at(path)?;
        self.dir(id).map(|_| id)
    }

    /// The bytes of a file.
    pub(super) fn bytes(&self, file: NodeId) -> &SimBytes {
        match &self.nodes[file.0] {
            Node::File(bytes) => bytes,
            Node::Dir(_) => unreachable!("only files are opened"),
        }
    }

    pub(super) fn bytes_mut(&mut self, file: NodeId) -> &mut SimBytes {
        match &mut self.nodes[file.0] {
            Node::File(bytes) => bytes,
            Node::Dir(_) => unreachable!("only files are opened"),
        }
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let names = &self.dir(self.at(dir)?)?.current;
        let entry = |(name, id): (&OsString, &NodeId)| {
            let (is_dir, bytes) = match &self.nodes[id.0] {
                Node::File(bytes) => (false, bytes.len()),
                Node::Dir(_) => (true, 0),
            };
            DirEntry { name: name.to_string_lossy().into_owned(), is_dir, bytes }
        };
        Ok(names.iter().map(entry).collect())
    }

    /// All files with their lengths, sorted by path.
    pub(super) fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        let mut rest = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, id)) = rest.pop() {
            match &self.nodes[id.0] {
                Node::File(bytes) => files.push((path, bytes.len())),
                Node::Dir(dir) => {
                    rest.extend(dir.current.iter().map(|(name, &id)| (path.join(name), id)));
                }
            }
        }
        files.sort();
        files
    }

    /// The sum of the lengths of all files.
    pub(super) fn used_bytes(&self) -> u64 {
        self.files().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Creates a file whose name is free.
    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<NodeId> {
        let (dir, name) = self.place(path)?;
        let node = self.add_node(Node::File(SimBytes::default()));
        self.change(vec![Edit { dir, name, node, kind: EditKind::Add }]);
        Ok(node)
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut dir = ROOT;
        for name in names_of(path) {
            dir = match self.dir(dir)?.current.get(name) {
                Some(&next) => next,
                None => {
                    let node = self.add_node(Node::Dir(Dir::default()));
                    let name = name.to_os_string();
                    self.change(vec![Edit { dir, name, node, kind: EditKind::Add }]);
                    node
                }
            };
        }
        // As mkdir does if the name belongs to a file.
        self.dir(dir).map(drop).map_err(|_| os_error(libc::EEXIST))
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.at(from)?;
        let (from_dir, from_name) = self.place(from)?;
        let (to_dir, to_name) = self.place(to)?;
        let from_is_dir = matches!(self.nodes[node.0], Node::Dir(_));
        let replaced = self.dir(to_dir)?.current.get(&to_name).copied();
        match replaced.map(|id| &self.nodes[id.0]) {
            _ if replaced == Some(node) => return Ok(()),
            _ if from_is_dir && names_of(to).starts_with(&names_of(from)) => {
                return Err(os_error(libc::EINVAL));
            }
            Some(Node::File(_)) if from_is_dir => return Err(os_error(libc::ENOTDIR)),
            Some(Node::Dir(_)) if !from_is_dir => return Err(os_error(libc::EISDIR)),
            Some(Node::Dir(dir)) if !dir.current.is_empty() => {
                return Err(os_error(libc::ENOTEMPTY));
            }
            _ => {}
        }
        self.change(vec![
            Edit { dir: from_dir, name: from_name, node, kind: EditKind::Remove },
            Edit { dir: to_dir, name: to_name, node, kind: EditKind::Add },
        ]);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let node = match self.file_at(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            outcome => outcome?,
        };
        self.unlink(path, node)
    }

    pub(super) fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let node = match self.dir_at(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            outcome => outcome?,
        };
        if node == ROOT {
            return Err(os_error(libc::EBUSY));
        }
        let names: Vec<_> = self.dir(node)?.current.iter().map(|(n, &i)| (n.clone(), i)).collect();
        for (name, id) in names {
            let below = path.join(name);
            match self.nodes[id.0] {
                Node::File(_) => self.unlink(&below, id)?,
                Node::Dir(_) => self.remove_dir_all(&below)?,
            }
        }
        self.unlink(path, node)
    }

    /// Makes the names in a directory durable (sim_tree-1).
    pub(super) fn sync_dir(&mut self, dir: NodeId) {
        for operation in self.take_pending(dir) {
            self.make_durable(&operation);
        }
    }

    /// A failed sync: each operation that it was to make durable survives or is undone, and is not
    /// synced again.
    pub(super) fn settle_dir(&mut self, dir: NodeId, random: &mut Random) {
        for operation in self.take_pending(dir) {
            if random.coin() {
                self.make_durable(&operation);
            }
        }
    }

    /// A state that the disk may have after a power loss (sim_tree-2).
    pub(super) fn after_power_loss(&self, random: &mut Random) -> Tree {
        let dirs_only = |node: &Node| match node {
            Node::File(_) => Node::File(SimBytes::default()),
            Node::Dir(dir) => Node::Dir(Dir { durable: dir.durable.clone(), ..Dir::default() }),
        };
        let mut names =
            Tree { nodes: self.nodes.iter().map(dirs_only).collect(), pending: Vec::new() };
        for operation in &self.pending {
            if random.coin() {
                names.make_durable(operation);
            }
        }
        let mut tree = Tree::new();
        let mut rest = vec![(ROOT, ROOT)];
        while let Some((old, new)) = rest.pop() {
            let durable = names.dir(old).map(|dir| dir.durable.clone()).unwrap_or_default();
            let mut copied = Names::new();
            for (name, old) in durable {
                let node = match &self.nodes[old.0] {
                    Node::File(bytes) => Node::File(bytes.after_power_loss(random)),
                    Node::Dir(_) => Node::Dir(Dir::default()),
                };
                let new = tree.add_node(node);
                rest.push((old, new));
                copied.insert(name, new);
            }
            if let Node::Dir(dir) = &mut tree.nodes[new.0] {
                *dir = Dir { current: copied.clone(), durable: copied };
            }
        }
        tree
    }

    fn dir(&self, id: NodeId) -> io::Result<&Dir> {
        match &self.nodes[id.0] {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(os_error(libc::ENOTDIR)),
        }
    }

    fn dir_mut(&mut self, id: NodeId) -> &mut Dir {
        match &mut self.nodes[id.0] {
            Node::Dir(dir) => dir,
            Node::File(_) => unreachable!("an edit names a folder"),
        }
    }

    /// The directory of a path, which must exist, and the name in it.
    fn place(&self, path: &Path) -> io::Result<(NodeId, OsString)> {
        let mut names = names_of(path);
        let name = names.pop().ok_or_else(|| os_error(libc::EBUSY))?;
        let dir = self.dir_at(&names.iter().collect::<PathBuf>())?;
        Ok((dir, name.to_os_string()))
    }

    fn add_node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() - 1)
    }

    fn unlink(&mut self, path: &Path, node: NodeId) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        self.change(vec![Edit { dir, name, node, kind: EditKind::Remove }]);
        Ok(())
    }

    /// Applies an operation for programs to see; the disk may follow later.
    fn change(&mut self, operation: Operation) {
        for edit in &operation {
            edit.apply(&mut self.dir_mut(edit.dir).current);
        }
        self.pending.push(operation);
    }

    /// Removes the operations that a sync of `dir` makes durable (sim_tree-1), in order.
    fn take_pending(&mut self, dir: NodeId) -> Vec<Operation> {
        let mut dirs = BTreeSet::from([dir]);
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for operation in self.pending.drain(..).rev() {
            if operation.iter().any(|edit| dirs.contains(&edit.dir)) {
                dirs.extend(operation.iter().map(|edit| edit.dir));
                taken.push(operation);
            } else {
                left.push(operation);
            }
        }
        left.reverse();
        taken.reverse();
        self.pending = left;
        taken
    }

    fn make_durable(&mut self, operation: &Operation) {
        for edit in operation {
            if edit.kind == EditKind::Add {
                self.forget_durable_name(edit.node);
            }
            edit.apply(&mut self.dir_mut(edit.dir).durable);
        }
    }

    /// Prepares another name for a node (sim_tree-3): the operation that removed its old name may
    /// be lost.
    fn forget_durable_name(&mut self, node: NodeId) {
        for other in &mut self.nodes {
            if let Node::Dir(dir) = other {
                dir.durable.retain(|_, id| *id != node);
            }
        }
    }
}

impl Edit {
    fn apply(&self, names: &mut Names) {
        match self.kind {
            EditKind::Add => {
                names.insert(self.name.clone(), self.node);
            }
            // Another node may have the name, if an operation in between was lost.
            EditKind::Remove => {
                if names.get(&self.name) == Some(&self.node) {
                    names.remove(&self.name);
                }
            }
        }
    }
}

/// The parts of the path from the root.
fn names_of(path: &Path) -> Vec<&OsStr> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    names
}
