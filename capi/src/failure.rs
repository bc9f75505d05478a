//! How a call fails, and the text of the last failure of each thread.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int};

use ringpost::{AskCause, AskError, Cause, LookupError};
use ringpost_ranks::{JoinError, WorldError};
use ringpost_streams::{ConnectError, EndCause, SendCause};

/// The kind of a failure: the number that `rp_last_code` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    /// An argument is wrong: null, a handle that is closed or of another kind, a name that is none.
    Invalid = 1,
    /// The bytes do not fit: of a message into a buffer, or of a request into the limits.
    TooLarge = 2,
    /// The call would wait, and was told not to.
    WouldBlock = 3,
    /// The time is over.
    TimedOut = 4,
    /// The peer has closed in order: nothing is missing.
    Ended = 5,
    /// Anything else: the text says it.
    Failed = 6,
    /// A defect of this library: it panicked inside.
    Defect = 7,
    /// No listener has this name, now: its program may come up in a moment.
    NotFound = 8,
    /// A rank of the world has died, or another rank has heard of that and revoked the world.
    RankDied = 9,
    /// The link between two nodes was lost, and perhaps messages with it.
    LinkLost = 10,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Failure { code, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Failure::new(Code::Invalid, text)
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Failure::new(Code::Failed, text)
    }

    /// Returns the failure of a call whose handle another thread closes meanwhile.
    pub(crate) fn closed() -> Self {
        Failure::invalid("the handle was closed by another thread during the call")
    }
}

/// Every error of the crates below is a failure with its text.
macro_rules! failures {
    ($($error:ty),+) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Failure::failed(error.to_string())
            }
        }
    )+};
}

failures!(
    ringpost::StartError,
    ringpost::net::ConnectError,
    ringpost::net::InvalidEnvironment,
    ringpost::spawn::SpawnError,
    ringpost::region::AllocateError,
    ringpost::region::RegionError,
    ringpost_streams::rpc::CallError
);

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match &error {
            ConnectError::Lookup(LookupError::NotFound { cause: Cause::NoSuchActor, .. }) => {
                Code::NotFound
            }
            ConnectError::Ask(AskError { cause: AskCause::LinkDown(_), .. }) => Code::LinkLost,
            _ => Code::Failed,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<EndCause> for Failure {
    fn from(cause: EndCause) -> Self {
        let code = match &cause {
            EndCause::Closed => Code::Ended,
            EndCause::Lost => Code::LinkLost,
            _ => Code::Failed,
        };
        Failure::new(code, cause.to_string())
    }
}

impl From<SendCause> for Failure {
    fn from(cause: SendCause) -> Self {
        let text = cause.to_string();
        match cause {
            SendCause::Ended(cause) => cause.into(),
            SendCause::Refused(Cause::TooLarge { .. }) => Failure::new(Code::TooLarge, text),
            _ => Failure::failed(text),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::TimedOut => Code::TimedOut,
            _ => Code::Failed,
        };
        let source = error.get_ref().map(|inner| inner as &dyn Error);
        Failure::new(code, source.map_or_else(|| error.to_string(), ToString::to_string))
    }
}

impl From<WorldError> for Failure {
    fn from(error: WorldError) -> Self {
        let code = match &error {
            WorldError::Died { .. } | WorldError::Revoked => Code::RankDied,
            WorldError::Left { .. } => Code::Ended,
            WorldError::Truncated { .. } | WorldError::TooLong { .. } => Code::TooLarge,
            WorldError::NoSuchRank { .. } | WorldError::Closed => Code::Invalid,
            _ => Code::Failed,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        let code = match &error {
            JoinError::TimedOut { .. } => Code::TimedOut,
            JoinError::InvalidJob { .. }
            | JoinError::InvalidSize { .. }
            | JoinError::InvalidRank { .. }
            | JoinError::Environment { .. } => Code::Invalid,
            JoinError::Died { .. } => Code::RankDied,
            _ => Code::Failed,
        };
        Failure::new(code, error.to_string())
    }
}

thread_local! {
    static CODE: Cell<c_int> = const { Cell::new(0) };
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Notes the failure of a call of this thread. On a thread that is ending nothing is noted.
pub(crate) fn note(failure: Failure) {
    CODE.try_with(|code| code.set(failure.code as c_int)).ok();
    let text = CString::new(failure.text.replace('\0', "\u{fffd}")).unwrap_or_default();
    TEXT.try_with(|last| last.replace(text)).ok();
}

/// Returns the text of the last failure on this thread: valid until the next failure on it, or its
/// end. Empty where no call has failed.
pub(crate) fn last_text() -> *const c_char {
    let text = TEXT.try_with(|text| text.borrow().as_ptr());
    text.unwrap_or(CStr::as_ptr(c""))
}

/// Returns the number of the last failure on this thread; 0 where no call has failed.
pub(crate) fn last_code() -> c_int {
    CODE.try_with(Cell::get).unwrap_or(0)
}
