//! Properties of expansions that no compiled program shows.

use crate::{actor, handlers, message, protocol};
use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

/// Returns all identifiers of an expansion, in order.
fn words(tokens: TokenStream) -> Vec<String> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(ident) => vec![ident.to_string()],
            TokenTree::Group(group) => words(group.stream()),
            _ => Vec::new(),
        })
        .collect()
}

fn errors(tokens: TokenStream) -> usize {
    words(tokens).iter().filter(|word| *word == "compile_error").count()
}

#[test]
fn a_renamed_crate_is_named_nowhere_by_its_own_name() {
    let renamed = [
        message::expand(
            quote!(crate = post),
            quote!(
                struct Ping {
                    tree: Vec<Ping>,
                    n: u8,
                }
            ),
        ),
        message::expand(
            quote!(crate = post, local),
            quote!(
                struct Stay<T>(T);
            ),
        ),
        actor::expand(
            quote!(crate = post),
            quote!(
                struct Echo<T> {
                    last: T,
                }
            ),
        ),
        handlers::expand(
            quote!(crate = post, Ping),
            quote!(
                impl<T: Wire> Echo<T> {
                    #[handler]
                    async fn say(&mut self, what: T, cx: &mut Context<Self>) {}

                    #[handler(protocol = bank::Bank)]
                    fn close(&self, account: String) {}
                }
            ),
        ),
        protocol::expand(
            quote!(crate = post),
            quote!(
                pub trait Bank {
                    fn close(account: String);
                    fn ping(msg: Ping) -> u8;
                }
            ),
        ),
    ];
    for expansion in renamed {
        let words = words(expansion);
        assert!(words.iter().any(|word| word == "post"));
        assert!(!words.iter().any(|word| word == "ringpost"));
    }
}

#[test]
fn errors_of_one_item_are_reported_together_and_the_item_stays() {
    let expansion = message::expand(
        quote!(nmae = "x"),
        quote!(
            struct Ping<'a> {
                #[message(opaqe)]
                a: &'a u8,
                #[cfg(unix)]
                b: u8,
            }
        ),
    );
    assert_eq!(errors(expansion.clone()), 4);
    assert!(words(expansion).starts_with(&["struct".into(), "Ping".into()]));
}

#[test]
fn a_broken_handler_does_not_take_its_neighbours_away() {
    let expansion = handlers::expand(
        TokenStream::new(),
        quote!(impl Echo {
            #[handler]
            fn broken(self, text: &str) {}
            #[handler]
            fn whole(&self) {}
        }),
    );
    assert_eq!(errors(expansion.clone()), 2);
    let words = words(expansion);
    assert!(words.contains(&"broken".into()) && words.contains(&"Whole".into()));
    assert!(!words.contains(&"handler".into()) && !words.contains(&"Broken".into()));
}

#[test]
fn nonsense_is_an_error_and_not_a_panic() {
    for item in [
        quote!(),
        quote!(
            fn f() {}
        ),
        quote!(impl),
        quote!(enum),
        quote!(
            trait T {}
        ),
    ] {
        assert_eq!(errors(message::expand(quote!(), item.clone())), 1);
        assert_eq!(errors(actor::expand(quote!(), item.clone())), 1);
        let is_trait = item.to_string().starts_with("trait");
        assert_eq!(errors(protocol::expand(quote!(), item.clone())), usize::from(!is_trait));
        assert_eq!(errors(handlers::expand(quote!(), item)), 1);
    }
}

/// Checked both for a message generated beside the actor and for a protocol's message.
#[test]
fn a_handler_of_whose_name_no_type_can_be_made_is_an_error_and_not_a_panic() {
    for method in [quote!(__), quote!(_2nd)] {
        let own = quote!(impl Echo {
            #[handler]
            fn #method(&self) {}
        });
        assert_eq!(errors(handlers::expand(TokenStream::new(), own)), 1);
        let of_protocol = quote!(impl Echo {
            #[handler(protocol = Calls)]
            fn #method(&self) {}
        });
        handlers::expand(TokenStream::new(), of_protocol);
    }
}

#[test]
fn an_archive_under_a_condition_is_refused_and_other_conditions_are_not() {
    let with = |attribute: TokenStream| {
        errors(message::expand(quote!(), quote!(#attribute struct Ping { n: u8 })))
    };
    assert_eq!(with(quote!(#[cfg_attr(unix, rkyv(derive(Debug)))])), 1);
    assert_eq!(with(quote!(#[cfg_attr(unix, derive(Debug))])), 0);
}

#[test]
fn a_name_has_one_layout_raw_or_not() {
    let layout = |field: TokenStream| {
        let expansion = message::expand(quote!(), quote!(struct Ping { #field: u8 }));
        let text = expansion.to_string();
        text.matches("\"gen\"").count() + 100 * text.matches("\"r#gen\"").count()
    };
    assert_eq!(layout(quote!(r#gen)), layout(quote!(gen)));
}

#[test]
fn a_message_that_gained_nothing_has_no_earlier_form() {
    let expansion = message::expand(
        quote!(version = 3),
        quote!(
            struct Deposit {
                cents: u64,
            }
        ),
    );
    let words = words(expansion);
    assert!(!words.iter().any(|word| word.starts_with("__Version") || word == "LAYOUTS"));
}

#[test]
fn each_earlier_version_has_a_form_with_the_fields_of_then() {
    let expansion = message::expand(
        quote!(),
        quote!(
            struct Deposit {
                cents: u64,
                #[message(since = 2)]
                memo: String,
                #[message(since = 2)]
                by: String,
                #[message(since = 3, default = currency())]
                currency: u16,
            }
        ),
    );
    let file = syn::parse2::<syn::File>(expansion).unwrap();
    let syn::Item::Const(hidden) = &file.items[0] else { panic!() };
    let syn::Expr::Block(block) = &*hidden.expr else { panic!() };
    let forms: Vec<_> = block
        .block
        .stmts
        .iter()
        .filter_map(|statement| match statement {
            syn::Stmt::Item(syn::Item::Struct(form)) => {
                let fields = form.fields.iter().map(|field| {
                    assert!(field.attrs.is_empty());
                    field.ident.as_ref().map(ToString::to_string)
                });
                Some((form.ident.to_string(), fields.collect::<Option<Vec<_>>>().unwrap()))
            }
            _ => None,
        })
        .collect();
    let second = ["cents", "memo", "by"].map(str::to_owned).to_vec();
    let first = vec!["cents".to_owned()];
    assert_eq!(forms, [("__Version2".to_owned(), second), ("__Version1".to_owned(), first)]);
}

#[test]
fn fields_are_gained_at_the_end_and_in_the_order_of_versions() {
    let wrong = [
        ("version = 2", "struct M { #[message(since = 2)] a: u8, b: u8 }"),
        ("version = 1", "struct M { a: u8, #[message(since = 2)] b: u8 }"),
        ("version = 3", "struct M { a: u8, #[message(since = 2)] b: u8 }"),
        ("version = 0", "struct M { a: u8 }"),
        ("", "struct M { a: u8, #[message(since = 1)] b: u8 }"),
        ("", "struct M { a: u8, #[message(since = 0)] b: u8 }"),
        ("", "struct M { a: u8, #[message(default = 3)] b: u8 }"),
        ("", "struct M { #[message(since = 3)] a: u8, #[message(since = 2)] b: u8 }"),
        ("", "struct M { #[message(since = 2)] a: u8, #[message(since = 4)] b: u8 }"),
        ("", "struct M(u8, #[message(since = 2)] u8);"),
        ("", "enum M { A { #[message(since = 2)] a: u8 } }"),
        ("local", "struct M { a: u8, #[message(since = 2)] b: u8 }"),
        ("", "struct M<T> { a: T, #[message(since = 2)] b: u8 }"),
        ("", "struct M { a: Option<Box<M>>, #[message(since = 2)] b: u8 }"),
    ];
    let count = |arguments: &str, item: &str| {
        errors(message::expand(arguments.parse().unwrap(), item.parse().unwrap()))
    };
    for (arguments, item) in wrong {
        assert_eq!(count(arguments, item), 1, "{arguments}: {item}");
    }
    let of_versions = |last: u64| {
        let field = |since| format!("#[message(since = {since})] f{since}: u8,");
        format!("struct M {{ {} }}", (2..=last).map(field).collect::<String>())
    };
    assert_eq!(count("", &of_versions(16)), 0);
    assert_eq!(count("", &of_versions(17)), 1);
}
