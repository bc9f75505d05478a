//! Builds programs in C and C++ against the installed libraries.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::process::is_slow;

/// The folder of this crate.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command to its end, and returns its standard output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let Output { status, stdout, stderr } = output;
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Installs the libraries that this test was built with, once, and returns where they are.
pub(crate) fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let test = std::env::current_exe().expect("the test has a path");
        let built = test.parent().expect("it is in a folder");
        let prefix = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("installed");
        let mut make = Command::new("make");
        make.arg("--silent").arg("-C").arg(here()).arg("install");
        make.arg(format!("PREFIX={}", prefix.display())).arg(format!("BUILT={}", built.display()));
        make.args(cfg!(feature = "verbs").then_some("VERBS=1"));
        run(&mut make);
        prefix
    })
}

/// How a program is built.
#[derive(Clone, Copy, Default)]
pub(crate) struct How {
    /// With the address sanitizer on the side of the program, but not under valgrind, which does not
    /// bear it.
    pub(crate) sanitized: bool,
    /// Against the static library.
    pub(crate) is_static: bool,
}

/// Compiles a program of `tests/c`, by its name with the ending, as a user does, and returns it.
pub(crate) fn compile(source: &str, how: How) -> PathBuf {
    let installed = installed();
    let pkg_config = |arguments: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", installed.join("lib/pkgconfig"));
        run(command.args(arguments).arg("ringpost"))
    };
    let is_c = source.ends_with(".c");
    let mut command = Command::new(if is_c { "cc" } else { "c++" });
    command.arg(if is_c { "-std=c11" } else { "-std=c++11" });
    command.args(["-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    let mut name = source.replace('.', "_");
    if how.sanitized {
        command.args((!is_slow()).then_some("-fsanitize=address"));
        name += "_sanitized";
    }
    if how.is_static {
        name += "_static";
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    command.arg("-o").arg(&program).arg(here().join("tests/c").join(source));
    command.args(pkg_config(&["--cflags"]).split_whitespace());
    if how.is_static {
        command.arg(installed.join("lib/libringpost.a"));
        let libraries = pkg_config(&["--static", "--libs"]);
        command.args(libraries.split_whitespace().filter(|word| *word != "-lringpost"));
    } else {
        command.args(pkg_config(&["--libs"]).split_whitespace());
    }
    run(command.arg("-lpthread"));
    program
}
