//! The contract of `Disk` and `File`, as far as calls alone can show it.

use std::{
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{check, ok};
use crate::disk::{Disk, DiskExt, File, FileExt, FileKind, OpenMode};

/// Checks a disk. `make` gives one and an empty directory on it, a fresh one each time.
///
/// Points 1 and 2 of the contract (what survives a power loss; modes) need more than the trait's calls and are not
/// checked; what each method's own documentation says is.
///
/// # Panics
/// With the point that failed and the call that failed it.
pub fn disk(mut make: impl FnMut() -> (Arc<dyn Disk>, PathBuf)) {
    for check in [errors, reads_and_writes, lengths, names, renames, removals, locks, whole_files] {
        let (disk, root) = make();
        check(&*disk, &root);
    }
}

#[track_caller]
fn refused<T: Debug>(what: &str, result: io::Result<T>, kind: io::ErrorKind) {
    match result {
        Err(error) => {
            check("3", error.kind() == kind, || format!("{what}: {kind:?} expected, got {error:?}"))
        }
        Ok(value) => check("3", false, || format!("{what}: {kind:?} expected, got {value:?}")),
    }
}

fn write(file: &dyn File, bytes: &[u8], at: u64) {
    if let Err((taken, error)) = file.write_all_at(bytes, at) {
        panic!("write_at: {error} after {taken} of {} bytes at {at}", bytes.len());
    }
}

fn bytes_of(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; ok("len", file.len()) as usize + 1];
    let read = ok("read_at", file.read_full_at(&mut bytes, 0));
    bytes.truncate(read);
    bytes
}

fn create(disk: &dyn Disk, path: &Path) -> Box<dyn File> {
    ok("open CreateNew", disk.open(path, OpenMode::CreateNew))
}

fn errors(disk: &dyn Disk, root: &Path) {
    let (missing, file, below) = (root.join("missing"), root.join("file"), root.join("file/below"));
    let not_found = io::ErrorKind::NotFound;
    refused("open Read of nothing", disk.open(&missing, OpenMode::Read), not_found);
    refused("open ReadWrite of nothing", disk.open(&missing, OpenMode::ReadWrite), not_found);
    refused(
        "open CreateNew without a directory",
        disk.open(&missing.join("f"), OpenMode::CreateNew),
        not_found,
    );
    refused("metadata of nothing", disk.metadata(&missing), not_found);
    refused("list of nothing", disk.list(&missing), not_found);
    refused("rename of nothing", disk.rename(&missing, &file), not_found);
    refused("remove_file of nothing", disk.remove_file(&missing), not_found);
    refused("remove_dir of nothing", disk.remove_dir(&missing), not_found);
    refused("sync_dir of nothing", disk.sync_dir(&missing), not_found);
    refused("lock without a directory", disk.lock(&missing.join("f")), not_found);
    drop(create(disk, &file));
    refused("open CreateNew of a file", disk.open(&file, OpenMode::CreateNew), io::ErrorKind::AlreadyExists);
    refused("create_dir of a file", disk.create_dir(&file), io::ErrorKind::AlreadyExists);
    refused("list of a file", disk.list(&file), io::ErrorKind::NotADirectory);
    refused("open below a file", disk.open(&below, OpenMode::CreateNew), io::ErrorKind::NotADirectory);
    refused(
        "open ReadWrite of a directory",
        disk.open(root, OpenMode::ReadWrite),
        io::ErrorKind::IsADirectory,
    );
    refused("open Read of a directory", disk.open(root, OpenMode::Read), io::ErrorKind::IsADirectory);
    refused("lock of a directory", disk.lock(root), io::ErrorKind::IsADirectory);
}

fn reads_and_writes(disk: &dyn Disk, root: &Path) {
    let path = root.join("file");
    let file = create(disk, &path);
    check("File::is_empty", ok("is_empty", file.is_empty()), || "of a new file".to_owned());
    check("File::read_at", ok("read_at", file.read_at(&mut [0; 4], 0)) == 0, || "at the end".to_owned());
    write(&*file, b"hello world", 0);
    write(&*file, b"W", 6);
    check("File::read_at", bytes_of(&*file) == b"hello World", || "what was written".to_owned());
    check("File::read_at", ok("read_at", file.read_at(&mut [0; 4], 99)) == 0, || "past the end".to_owned());
    write(&*file, b"!", 13);
    check("File::write_at", bytes_of(&*file) == b"hello World\0\0!", || "a hole reads as zeros".to_owned());
    let other = ok("open Read", disk.open(&path, OpenMode::Read));
    check("Disk::open", bytes_of(&*other) == bytes_of(&*file), || "two handles see one file".to_owned());
    check("Disk::open", other.write_at(b"x", 0).is_err(), || "Read mode refuses writes".to_owned());
    check("Disk::open", bytes_of(&*file).starts_with(b"h"), || "Read mode writes nothing".to_owned());
    ok("sync_data", file.sync_data());
    let again = ok("open ReadWrite", disk.open(&path, OpenMode::ReadWrite));
    write(&*again, b"J", 0);
    check("Disk::open", bytes_of(&*other).starts_with(b"Jello"), || "ReadWrite keeps the content".to_owned());
}

fn lengths(disk: &dyn Disk, root: &Path) {
    let file = create(disk, &root.join("file"));
    write(&*file, &[7; 1000], 0);
    ok("set_len", file.set_len(10));
    ok("set_len", file.set_len(600));
    let mut expected = vec![7; 10];
    expected.resize(600, 0);
    check("File::set_len", bytes_of(&*file) == expected, || "1000, then 10, then 600 bytes".to_owned());
    ok("set_len", file.set_len(0));
    check("File::set_len", ok("len", file.len()) == 0, || "to 0".to_owned());
}

fn names(disk: &dyn Disk, root: &Path) {
    ok("create_dir", disk.create_dir(&root.join("dir")));
    write(&*create(disk, &root.join("file")), b"abc", 0);
    let mut entries = ok("list", disk.list(root));
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let listed: Vec<_> = entries.iter().map(|entry| (entry.name.to_str(), entry.kind)).collect();
    let expected = [(Some("dir"), FileKind::Directory), (Some("file"), FileKind::File)];
    check("Disk::list", listed == expected, || format!("{listed:?}"));
    let metadata = ok("metadata", disk.metadata(&root.join("file")));
    check("Disk::metadata", (metadata.kind, metadata.len) == (FileKind::File, 3), || format!("{metadata:?}"));
    let metadata = ok("metadata", disk.metadata(&root.join("dir")));
    check("Disk::metadata", metadata.kind == FileKind::Directory, || format!("{metadata:?}"));
    ok("sync_dir", disk.sync_dir(root));
    ok("available_bytes", disk.available_bytes(root));
}

fn renames(disk: &dyn Disk, root: &Path) {
    let (a, b) = (root.join("a"), root.join("b"));
    let file = create(disk, &a);
    write(&*file, b"a", 0);
    write(&*create(disk, &b), b"bb", 0);
    ok("rename", disk.rename(&a, &b));
    check("Disk::rename", ok("read", disk.read_small(&b, 9)) == b"a", || "replaces a file".to_owned());
    refused("metadata of the old name", disk.metadata(&a), io::ErrorKind::NotFound);
    write(&*file, b"A", 0);
    check("Disk::rename", ok("read", disk.read_small(&b, 9)) == b"A", || "handles go with it".to_owned());
    ok("create_dir", disk.create_dir(&root.join("dir")));
    ok("rename", disk.rename(&b, &root.join("dir/c")));
    ok("rename of a directory", disk.rename(&root.join("dir"), &root.join("moved")));
    check("Disk::rename", ok("read", disk.read_small(&root.join("moved/c"), 9)) == b"A", || {
        "of a directory".to_owned()
    });
}

fn removals(disk: &dyn Disk, root: &Path) {
    let (dir, path) = (root.join("dir"), root.join("dir/file"));
    ok("create_dir", disk.create_dir(&dir));
    let file = create(disk, &path);
    write(&*file, b"x", 0);
    check("File::is_unlinked", !ok("is_unlinked", file.is_unlinked()), || "a name leads to it".to_owned());
    refused("remove_dir of a full directory", disk.remove_dir(&dir), io::ErrorKind::DirectoryNotEmpty);
    ok("remove_file", disk.remove_file(&path));
    check("Disk::remove_file", bytes_of(&*file) == b"x", || "an open handle keeps the file".to_owned());
    ok("remove_dir", disk.remove_dir(&dir));
    refused("metadata of the removed", disk.metadata(&dir), io::ErrorKind::NotFound);
}

fn locks(disk: &dyn Disk, root: &Path) {
    let path = root.join("LOCK");
    let lock = ok("lock", disk.lock(&path));
    write(&*lock, b"4711", 0);
    refused("a second lock", disk.lock(&path), io::ErrorKind::WouldBlock);
    check("Disk::lock", ok("read", disk.read_small(&path, 9)) == b"4711", || "others can read it".to_owned());
    drop(lock);
    let lock = ok("lock after release", disk.lock(&path));
    check("Disk::lock", bytes_of(&*lock) == b"4711", || "keeps the content".to_owned());
}

fn whole_files(disk: &dyn Disk, root: &Path) {
    let deep = root.join("a/b/c");
    ok("create_dir_all_durable", disk.create_dir_all_durable(&deep));
    ok("create_dir_all_durable again", disk.create_dir_all_durable(&deep));
    let path = deep.join("file");
    write(&*create(disk, &path), b"0123456789", 0);
    check("DiskExt::read_small", ok("read_small", disk.read_small(&path, 4)) == b"0123", || {
        "cut at 4".to_owned()
    });
    let file = ok("open", disk.open(&path, OpenMode::Read));
    refused("read_exact_at past the end", file.read_exact_at(&mut [0; 8], 4), io::ErrorKind::UnexpectedEof);
}
