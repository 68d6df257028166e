//! Files and directories, each with what is seen and what is certain.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    io,
    path::{Component, Path},
    time::{Duration, SystemTime},
};

use pintle_store::{DirEntry, FileId, FileKind, LockKind, Metadata, OpenHow};

use super::Loss;

pub(super) type InodeId = u64;

const ROOT: InodeId = 1;

#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) capacity_bytes: Option<usize>,
    inodes: HashMap<InodeId, Inode>,
    next: InodeId,
    ticks: u64,
    locks: HashMap<InodeId, Vec<(u64, LockKind)>>,
}

#[derive(Clone, Debug)]
struct Inode {
    mode: u32,
    modified: SystemTime,
    node: Node,
}

#[derive(Clone, Debug)]
enum Node {
    File(FileNode),
    Dir(DirNode),
}

#[derive(Clone, Debug, Default)]
struct FileNode {
    seen: Vec<u8>,
    certain: Vec<u8>,
    /// What was done since the last sync, in order.
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Clone, Debug, Default)]
struct DirNode {
    seen: BTreeMap<OsString, InodeId>,
    certain: BTreeMap<OsString, InodeId>,
    pending: Vec<Vec<(OsString, Option<InodeId>)>>,
}

impl DirNode {
    /// One operation's changes of names, which survive together or not at all.
    fn change(&mut self, names: Vec<(OsString, Option<InodeId>)>) {
        apply_names(&mut self.seen, &names);
        self.pending.push(names);
    }
}

impl Disk {
    pub(super) fn new() -> Self {
        let mut disk =
            Self { capacity_bytes: None, inodes: HashMap::new(), next: ROOT, ticks: 0, locks: HashMap::new() };
        disk.add(0o755, Node::Dir(DirNode::default()));
        disk
    }

    fn add(&mut self, mode: u32, node: Node) -> InodeId {
        let id = self.next;
        self.next += 1;
        let modified = self.tick();
        self.inodes.insert(id, Inode { mode, modified, node });
        id
    }

    /// A clock that goes on by a second with each change.
    fn tick(&mut self) -> SystemTime {
        self.ticks += 1;
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + self.ticks)
    }

    pub(super) fn open(&mut self, path: &Path, how: OpenHow) -> io::Result<InodeId> {
        let found = self.lookup(path)?;
        match (found, how) {
            (Some(_), OpenHow::CreateNew { .. }) => Err(io::ErrorKind::AlreadyExists.into()),
            (Some(id), _) => match self.inode(id).node {
                Node::File(_) => Ok(id),
                Node::Dir(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
            },
            (None, OpenHow::Read) => Err(io::ErrorKind::NotFound.into()),
            (None, OpenHow::CreateNew { mode } | OpenHow::Append { mode } | OpenHow::Lock { mode }) => {
                let (dir, name) = self.parent_of(path)?;
                let id = self.add(mode, Node::File(FileNode::default()));
                self.dir(dir)?.change(vec![(name, Some(id))]);
                Ok(id)
            }
        }
    }

    pub(super) fn create_dir(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        if self.lookup(path)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (dir, name) = self.parent_of(path)?;
        let id = self.add(mode, Node::Dir(DirNode::default()));
        self.dir(dir)?.change(vec![(name, Some(id))]);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.lookup(from)?.ok_or(io::ErrorKind::NotFound)?;
        let (from_dir, from_name) = self.parent_of(from)?;
        let (to_dir, to_name) = self.parent_of(to)?;
        match self.lookup(to)? {
            Some(same) if same == id => return Ok(()),
            Some(old) => match (&self.inode(id).node, &self.inode(old).node) {
                (Node::File(_), Node::Dir(_)) => return Err(io::ErrorKind::IsADirectory.into()),
                (Node::Dir(_), Node::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                (Node::Dir(_), Node::Dir(dir)) if !dir.seen.is_empty() => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                _ => {}
            },
            None => {}
        }
        if from_dir == to_dir {
            self.dir(to_dir)?.change(vec![(from_name, None), (to_name, Some(id))]);
        } else {
            // Journalling file systems never lose the new name but keep the removal of the old one: so the removal is
            // durable only by the sync of the old directory, here as there.
            self.dir(to_dir)?.change(vec![(to_name, Some(id))]);
            self.dir(from_dir)?.change(vec![(from_name, None)]);
        }
        Ok(())
    }

    pub(super) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.lookup(from)?.ok_or(io::ErrorKind::NotFound)?;
        if matches!(self.inode(id).node, Node::Dir(_)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if self.lookup(to)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (dir, name) = self.parent_of(to)?;
        self.dir(dir)?.change(vec![(name, Some(id))]);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let id = self.lookup(path)?.ok_or(io::ErrorKind::NotFound)?;
        if matches!(self.inode(id).node, Node::Dir(_)) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let (dir, name) = self.parent_of(path)?;
        self.dir(dir)?.change(vec![(name, None)]);
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        let id = self.lookup(path)?.ok_or(io::ErrorKind::NotFound)?;
        match &self.inode(id).node {
            Node::File(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Node::Dir(dir) if !dir.seen.is_empty() => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
            Node::Dir(_) => {}
        }
        let (dir, name) = self.parent_of(path)?;
        self.dir(dir)?.change(vec![(name, None)]);
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let id = self.lookup(path)?.ok_or(io::ErrorKind::NotFound)?;
        let dir = self.dir(id)?;
        dir.certain = dir.seen.clone();
        dir.pending.clear();
        Ok(())
    }

    pub(super) fn read_dir(&mut self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let id = self.lookup(path)?.ok_or(io::ErrorKind::NotFound)?;
        let entries = self.dir(id)?.seen.clone();
        Ok(entries.into_iter().map(|(name, id)| DirEntry { name, kind: self.inode(id).kind() }).collect())
    }

    pub(super) fn read_at(&self, id: InodeId, buf: &mut [u8], offset: u64) -> usize {
        let Node::File(file) = &self.inode(id).node else { return 0 };
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(file.seen.len());
        let count = buf.len().min(file.seen.len() - start);
        buf[..count].copy_from_slice(&file.seen[start..start + count]);
        count
    }

    pub(super) fn write(&mut self, id: InodeId, at: Option<usize>, bytes: &[u8]) -> io::Result<usize> {
        let free = self.capacity_bytes.map_or(usize::MAX, |capacity| capacity.saturating_sub(self.used_bytes()));
        let now = self.tick();
        let inode = self.inode_mut(id);
        inode.modified = now;
        let Node::File(file) = &mut inode.node else { return Err(io::ErrorKind::IsADirectory.into()) };
        let at = at.unwrap_or(file.seen.len());
        let grows = (at + bytes.len()).saturating_sub(file.seen.len());
        let count = bytes.len() - grows.saturating_sub(free).min(bytes.len());
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let change = Change::Write { at, bytes: bytes[..count].to_vec() };
        apply(&mut file.seen, &change);
        file.pending.push(change);
        Ok(count)
    }

    pub(super) fn set_len(&mut self, id: InodeId, len: u64) -> io::Result<()> {
        let now = self.tick();
        let inode = self.inode_mut(id);
        inode.modified = now;
        let Node::File(file) = &mut inode.node else { return Err(io::ErrorKind::IsADirectory.into()) };
        let change = Change::SetLen(usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?);
        apply(&mut file.seen, &change);
        file.pending.push(change);
        Ok(())
    }

    pub(super) fn set_mode(&mut self, id: InodeId, mode: u32) {
        self.inode_mut(id).mode = mode;
    }

    pub(super) fn sync(&mut self, id: InodeId) {
        if let Node::File(file) = &mut self.inode_mut(id).node {
            for change in std::mem::take(&mut file.pending) {
                apply(&mut file.certain, &change);
            }
        }
    }

    /// A failed sync: what was to be written is no longer waiting, and never reached the disk.
    pub(super) fn forget_dirty_pages(&mut self, path: &Path) {
        if let Ok(Some(id)) = self.lookup(path)
            && let Node::File(file) = &mut self.inode_mut(id).node
        {
            file.pending.clear();
        }
    }

    pub(super) fn corrupt(&mut self, path: &Path, offset: usize) {
        if let Ok(Some(id)) = self.lookup(path)
            && let Node::File(file) = &mut self.inode_mut(id).node
        {
            for bytes in [&mut file.seen, &mut file.certain] {
                if let Some(byte) = bytes.get_mut(offset) {
                    *byte = !*byte;
                }
            }
        }
    }

    pub(super) fn metadata_at(&self, path: &Path) -> io::Result<Metadata> {
        Ok(self.metadata(self.lookup(path)?.ok_or(io::ErrorKind::NotFound)?))
    }

    pub(super) fn metadata(&self, id: InodeId) -> Metadata {
        let inode = self.inode(id);
        let len_bytes = if let Node::File(file) = &inode.node { file.seen.len() as u64 } else { 0 };
        let links = self
            .inodes
            .values()
            .filter_map(|inode| if let Node::Dir(dir) = &inode.node { Some(dir) } else { None })
            .flat_map(|dir| dir.seen.values())
            .filter(|named| **named == id)
            .count() as u64;
        Metadata {
            kind: inode.kind(),
            len_bytes,
            mode: inode.mode,
            links,
            modified: inode.modified,
            id: Some(FileId { device: 1, inode: id }),
            owner: None,
        }
    }

    pub(super) fn try_lock(&mut self, id: InodeId, handle: u64, kind: LockKind) -> bool {
        let holders = self.locks.entry(id).or_default();
        let free = holders
            .iter()
            .filter(|(holder, _)| *holder != handle)
            .all(|(_, held)| kind == LockKind::Shared && *held == LockKind::Shared);
        if free {
            holders.retain(|(holder, _)| *holder != handle);
            holders.push((handle, kind));
        }
        free
    }

    pub(super) fn unlock(&mut self, id: InodeId, handle: u64) {
        if let Some(holders) = self.locks.get_mut(&id) {
            holders.retain(|(holder, _)| *holder != handle);
        }
    }

    pub(super) fn after_crash(&self, loss: Loss) -> Self {
        let mut dice = Dice(if let Loss::Dice(seed) = loss { seed } else { 0 });
        let mut disk = self.clone();
        disk.locks.clear();
        // In the order of their numbers, so that a seed means the same crash each time.
        let mut ids: Vec<_> = disk.inodes.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            match &mut disk.inode_mut(id).node {
                Node::File(file) => {
                    for change in std::mem::take(&mut file.pending) {
                        if let Some(change) = survive(change, loss, &mut dice) {
                            apply(&mut file.certain, &change);
                        }
                    }
                    file.seen = file.certain.clone();
                }
                Node::Dir(dir) => {
                    for names in std::mem::take(&mut dir.pending) {
                        if loss == Loss::Nothing || (loss != Loss::Everything && dice.below(2) == 0) {
                            apply_names(&mut dir.certain, &names);
                        }
                    }
                    dir.seen = dir.certain.clone();
                }
            }
        }
        disk
    }

    fn used_bytes(&self) -> usize {
        self.inodes.values().map(|inode| if let Node::File(file) = &inode.node { file.seen.len() } else { 0 }).sum()
    }

    fn lookup(&self, path: &Path) -> io::Result<Option<InodeId>> {
        let mut at = ROOT;
        let mut above = Vec::new();
        let mut names = path.components().peekable();
        while let Some(component) = names.next() {
            let name = match component {
                Component::Normal(name) => name,
                Component::ParentDir => {
                    at = above.pop().unwrap_or(ROOT);
                    continue;
                }
                _ => continue,
            };
            let Node::Dir(dir) = &self.inode(at).node else { return Err(io::ErrorKind::NotADirectory.into()) };
            match dir.seen.get(name) {
                Some(id) => {
                    above.push(at);
                    at = *id;
                }
                None if names.peek().is_none() => return Ok(None),
                None => return Err(io::ErrorKind::NotFound.into()),
            }
        }
        Ok(Some(at))
    }

    fn parent_of(&self, path: &Path) -> io::Result<(InodeId, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let dir = match path.parent() {
            Some(above) => self.lookup(above)?.ok_or(io::ErrorKind::NotFound)?,
            None => ROOT,
        };
        Ok((dir, name))
    }

    fn dir(&mut self, id: InodeId) -> io::Result<&mut DirNode> {
        match &mut self.inode_mut(id).node {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn inode(&self, id: InodeId) -> &Inode {
        self.inodes.get(&id).expect("an inode number that this disk gave out")
    }

    fn inode_mut(&mut self, id: InodeId) -> &mut Inode {
        self.inodes.get_mut(&id).expect("an inode number that this disk gave out")
    }
}

impl Inode {
    fn kind(&self) -> FileKind {
        match self.node {
            Node::File(_) => FileKind::File,
            Node::Dir(_) => FileKind::Dir,
        }
    }
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { at, bytes } => {
            if content.len() < at + bytes.len() {
                content.resize(at + bytes.len(), 0);
            }
            content[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        Change::SetLen(len) => content.resize(*len, 0),
    }
}

fn apply_names(entries: &mut BTreeMap<OsString, InodeId>, names: &[(OsString, Option<InodeId>)]) {
    for (name, id) in names {
        match id {
            Some(id) => entries.insert(name.clone(), *id),
            None => entries.remove(name),
        };
    }
}

fn survive(change: Change, loss: Loss, dice: &mut Dice) -> Option<Change> {
    match loss {
        Loss::Nothing => Some(change),
        Loss::Everything => None,
        Loss::Dice(_) => match (dice.below(3), change) {
            (0, _) => None,
            (1, Change::Write { at, bytes }) => {
                let kept = dice.below(bytes.len() as u64 + 1);
                Some(Change::Write { at, bytes: bytes[..usize::try_from(kept).unwrap_or(0)].to_vec() })
            }
            (_, change) => Some(change),
        },
    }
}

/// SplitMix64: all that is asked of it is that equal seeds give equal crashes.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
