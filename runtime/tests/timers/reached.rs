//! The states that are hard to reach.

/// Each of them has to be reached by a run of all seeds.
pub const STATES: [&str; 24] = [
    "a message came while an actor was busy that would have been idle",
    "a message kept an actor from being idle",
    "a timer came due while a handler ran",
    "a timer ended with its incarnation",
    "a timer left out what it missed",
    "a timer that repeats was taken back by its own message",
    "a timer that was due ended with its incarnation",
    "a timer that was due was set anew",
    "a timer that was due was taken back",
    "a timer told again and again",
    "a timer told once",
    "a timer was set anew",
    "a timer was taken back",
    "a timer would have been due in the next incarnation",
    "a timer would have been due while its actor rested",
    "an actor ended within a handler",
    "an actor was idle",
    "an actor was idle again",
    "an idle timer was taken back",
    "an incarnation used the key of a timer of the last one",
    "several timers were due at once",
    "the mailbox had its turn among timers",
    "the message of a timer set it anew",
    "there was no timer to take back",
];
