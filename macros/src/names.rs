//! Names that generated code would take away from the user, and the name a handler's message gets.

use syn::{Error, Ident, Result, ext::IdentExt};

/// Methods that every reference has, now or in a planned release. `ActorRef` dereferences to the
/// generated client, and a method of the reference itself silently takes precedence over a method
/// of the client. A handler with one of these names could not be called, or not any more once the
/// planned method is released.
const REFERENCE_METHODS: &[&str] = &[
    "address",
    "ask",
    "asker",
    "clone",
    "clone_from",
    "clone_into",
    "confirmed",
    "demonitor",
    "deref",
    "downgrade",
    "drain",
    "eq",
    "fmt",
    "hash",
    "id",
    "into",
    "is_local",
    "kill",
    "link",
    "monitor",
    "name",
    "ne",
    "new",
    "node",
    "protocol",
    "raw",
    "recipient",
    "request_stop",
    "reserve",
    "send_after",
    "stop",
    "tell",
    "to_owned",
    "try_into",
    "try_tell",
    "unlink",
    "wait_stopped",
    "with_ask_timeout",
];

/// Types and traits that nearly every module imports with the prelude. A generated message of such
/// a name would silently replace it in the whole module.
const PRELUDE: &[&str] = &[
    "Actor",
    "ActorExit",
    "ActorRef",
    "AsMut",
    "AsRef",
    "AskCause",
    "AskError",
    "Box",
    "BoxError",
    "Cause",
    "Clone",
    "Context",
    "Copy",
    "Default",
    "DoubleEndedIterator",
    "Down",
    "Drop",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Future",
    "Into",
    "IntoFuture",
    "IntoIterator",
    "Iterator",
    "Message",
    "Node",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Protocol",
    "Recipient",
    "Ref",
    "Reply",
    "ReplyTo",
    "Result",
    "Self",
    "Send",
    "Sized",
    "Some",
    "String",
    "Sync",
    "TellError",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Unpin",
    "Vec",
    "View",
];

/// Refuses a handler whose client method could not be reached.
pub(crate) fn check_method(method: &Ident) -> Result<()> {
    if !REFERENCE_METHODS.contains(&method.unraw().to_string().as_str()) {
        return Ok(());
    }
    Err(Error::new(
        method.span(),
        format!(
            "`{method}` is reserved for a method of every `ActorRef`, which would hide this \
             handler: choose another name"
        ),
    ))
}

/// Refuses a generated message that would hide a name of the prelude.
pub(crate) fn check_message(message: &Ident) -> Result<()> {
    if !PRELUDE.contains(&message.unraw().to_string().as_str()) {
        return Ok(());
    }
    Err(Error::new(
        message.span(),
        format!(
            "this handler would generate a message called `{message}`, which hides a name of the \
             prelude in this module: choose one with `#[handler(name = ..)]`"
        ),
    ))
}

/// Returns the name in camel case: `PutTree` for `put_tree`.
pub(crate) fn camel_case(method: &Ident) -> String {
    method
        .unraw()
        .to_string()
        .split('_')
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::format_ident;

    #[test]
    fn camel_case_joins_words_and_drops_raw_markers() {
        for (method, message) in [
            ("balance", "Balance"),
            ("put_tree", "PutTree"),
            ("_quiet__twice_", "QuietTwice"),
            ("r#move", "Move"),
            ("größe_x2", "GrößeX2"),
        ] {
            assert_eq!(camel_case(&format_ident!("{method}")), message);
        }
    }

    #[test]
    fn reserved_names_are_refused_also_when_raw() {
        assert!(check_method(&format_ident!("tell")).is_err());
        assert!(check_method(&format_ident!("r#link")).is_err());
        assert!(check_method(&format_ident!("balance")).is_ok());
        assert!(check_message(&format_ident!("Option")).is_err());
        assert!(check_message(&format_ident!("Balance")).is_ok());
    }

    #[test]
    fn the_lists_are_sorted_and_without_repetition() {
        for list in [REFERENCE_METHODS, PRELUDE] {
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
