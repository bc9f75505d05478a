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
