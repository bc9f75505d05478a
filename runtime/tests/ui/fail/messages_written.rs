//! Messages that are written in a way that no attribute takes.

mod message_arguments {
    //! Wrong arguments, all of which are reported in one build.
    use ringpost::prelude::*;

    #[message(nmae = "x")]
    pub struct Misspelt;

    #[message(name = "")]
    pub struct Nameless;

    #[message(version = "2")]
    pub struct Versioned;

    #[message]
    pub struct Fields {
        #[message(opaqe)]
        pub misspelt: u8,
        #[message(opaque, recursive)]
        pub both: u8,
        #[cfg(unix)]
        pub conditional: u8,
    }
}

mod message_borrows {
    //! A message owns its data.
    use ringpost::prelude::*;

    #[message]
    pub struct Line<'a> {
        pub text: &'a str,
    }
}

mod message_on_other_items {
    //! Only structs and enums are messages.
    use ringpost::prelude::*;

    #[message]
    pub union Bits {
        pub float: f32,
        pub int: u32,
    }

    #[message]
    fn deposit() {}
}

mod message_versions {
    //! Fields that a message gained stand at its end, each with the version that gained it.

    use ringpost::prelude::*;

    #[message]
    struct NoVersion {
        cents: u64,
        #[message(default = 3)]
        memo: u64,
    }

    #[message(version = 1)]
    struct Behind {
        cents: u64,
        #[message(since = 2)]
        memo: String,
    }

    #[message(version = 2)]
    struct InTheMiddle {
        cents: u64,
        #[message(since = 2)]
        memo: String,
        account: String,
    }

    #[message(version = 3)]
    struct OtherMeaning {
        cents: u64,
        #[message(since = 2)]
        memo: String,
    }

    #[message]
    enum Choice {
        Deposit {
            cents: u64,
            #[message(since = 2)]
            memo: String,
        },
    }

    #[message(local)]
    struct Here {
        cents: u64,
        #[message(since = 2)]
        memo: String,
    }

    #[message]
    struct Generic<T> {
        what: T,
        #[message(since = 2)]
        memo: String,
    }

    #[message]
    struct Tree {
        children: Vec<Tree>,
        #[message(since = 2)]
        memo: String,
    }
}

fn main() {}
