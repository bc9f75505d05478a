//! The items that an actor has once: client, envelope, dispatch table, and an `Accepts` impl per
//! row (accepted message).

use super::method::{HandlerMessage, Method};
use super::owner::HandlerOwner;
use crate::attr::CratePath;
use crate::spans::{at, located};
use crate::types::{text_of, view_of};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Ident, Path, Type, parse_quote_spanned};

/// Maximum size of a message in the mailbox, in which each entry is as large as the largest
/// message.
const MESSAGE_BYTES_MAX: usize = 512;

/// One message that the actor accepts.
pub(super) struct AcceptedMessage<'a> {
    input: Type,
    message: Type,
    conditions: Vec<&'a Attribute>,
    boxed: bool,
    /// `None` for a hand-written handler, which has no client method.
    method: Option<&'a Method>,
    /// The alias that generated code uses for a listed message. It does not compile if the message
    /// has no handler.
    listed: Option<TokenStream>,
    /// The span of errors about this message.
    at: Span,
}

impl<'a> AcceptedMessage<'a> {
    pub(super) fn of_method(method: &'a Method) -> Self {
        let (input, message) = method.input();
        AcceptedMessage {
            input,
            message,
            conditions: method.conditions().collect(),
            boxed: method.boxed,
            method: Some(method),
            listed: None,
            at: at(method.ident.span()),
        }
    }

    pub(super) fn of_listed(index: usize, input: &Type, actor: &HandlerOwner) -> Self {
        let at = at(input.span());
        let (ty, view) = (located(&actor.ty, at), view_of(input));
        let message = view.as_ref().unwrap_or(input);
        let mut row = AcceptedMessage {
            input: input.clone(),
            message: message.clone(),
            conditions: Vec::new(),
            boxed: false,
            method: None,
            listed: None,
            at,
        };
        // The check for a generic actor would be a different one for each type.
        if actor.generics.params.is_empty() {
            let (private, name) = (actor.root.private(at), format_ident!("__Listed{index}"));
            row.listed = Some(quote_spanned! {at=>
                type #name = <#message as #private::When<#private::Checked<{
                    let () = <#ty as #private::Handler<#input>>::IS_THERE;
                    0
                }>>>::Itself;
            });
            row.input = match view {
                Some(_) => parse_quote_spanned!(at=> #private::View<#name>),
                None => parse_quote_spanned!(at=> #name),
            };
        }
        row
    }

    /// Returns the name of the trait that handles the message: `Handler` or `Delegate`.
    fn form(&self) -> Ident {
        self.method.map_or_else(|| Ident::new("Handler", self.at), Method::form)
    }

    /// Returns true if its handler may wait.
    fn waits(&self) -> bool {
        self.method.is_none_or(|method| method.is_async)
    }

    /// Returns the type of the input in the envelope.
    fn held(&self) -> TokenStream {
        let input = &self.input;
        if self.boxed { quote!(::std::boxed::Box<#input>) } else { quote!(#input) }
    }

    /// Returns the check of the message's size in the mailbox.
    fn size_check(&self) -> TokenStream {
        let held = self.held();
        let text = format!(
            "`{}` is larger than {MESSAGE_BYTES_MAX} bytes, and every place in the mailbox would \
             be: mark its handler `#[handler(boxed)]`, or put its large fields into a `Box`",
            text_of(&self.message)
        );
        quote_spanned! {self.at=>
            ::core::assert!(::core::mem::size_of::<#held>() <= #MESSAGE_BYTES_MAX, #text)
        }
    }
}

/// The messages that an actor accepts, from which its items are generated.
pub(super) struct DispatchTable<'a> {
    pub(super) actor: &'a HandlerOwner,
    pub(super) rows: Vec<AcceptedMessage<'a>>,
}

impl ToTokens for DispatchTable<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let client = self.client();
        let methods = || self.rows.iter().filter_map(|row| row.method);
        let listed = self.rows.iter().map(|row| &row.listed);
        let places = methods().filter_map(Method::place);
        let handlers = methods().map(|method| method.tokens(self.actor));
        let dispatch = [
            self.client_impl(),
            self.envelope(),
            self.handlers_impl(),
            self.checks(),
            self.protocol_checks(),
        ];
        let accepts = self.rows.iter().enumerate().map(|(index, row)| self.accepts(index, row));
        tokens.extend(quote! {
            #client
            const _: () = {
                #(#listed)*
                #(#places)*
                #(#handlers)*
                #(#dispatch)*
                #(#accepts)*
            };
        });
    }
}

impl DispatchTable<'_> {
    fn root(&self) -> &CratePath {
        &self.actor.root
    }

    fn private(&self) -> TokenStream {
        self.root().private(self.at())
    }

    fn client_name(&self) -> Ident {
        format_ident!("{}Client", self.actor.ident)
    }

    /// Returns the struct of the client. It is public, because it must be as visible as the actor,
    /// whose visibility is not known here.
    fn client(&self) -> TokenStream {
        let (private, client, ty) = (self.private(), self.client_name(), &self.actor.ty);
        let generics = &self.actor.generics;
        let clause = &generics.where_clause;
        let doc = format!(
            "What [`{0}`] can be asked: one method per handler. `ActorRef<{0}>` dereferences to \
             it.",
            self.actor.ident
        );
        quote_spanned! {self.at()=>
            #[doc = #doc]
            #[allow(unreachable_pub, reason = "as visible as the actor may be")]
            pub struct #client #generics #clause {
                raw: #private::RawActorRef<#ty>,
            }
        }
    }

    fn client_impl(&self) -> TokenStream {
        let client = self.client_name();
        let (params, args, clause) = self.actor.generics.split_for_impl();
        let methods = self.rows.iter().filter_map(|row| row.method).map(|m| self.client_method(m));
        quote_spanned! {self.at()=>
            #[allow(
                dead_code, private_interfaces, unreachable_pub, clippy::too_many_arguments,
                reason = "the methods have the handlers' own visibility and parameters"
            )]
            impl #params #client #args #clause {
                #(#methods)*
            }
        }
    }

    fn client_method(&self, method: &Method) -> TokenStream {
        let at = at(method.ident.span());
        let (private, ty) = (self.root().private(at), &self.actor.ty);
        let (Method { ident, vis, attributes, .. }, (_, message)) = (method, method.input());
        let (parameters, value) = match &method.takes {
            HandlerMessage::Whole(_) => (quote!(msg: #message), quote!(msg)),
            HandlerMessage::Fields(generated) => (generated.parameters(), generated.value()),
        };
        let doc =
            format!("Asks the actor's handler `{ident}`, and waits for its reply once awaited.");
        quote_spanned! {at=>
            #(#attributes)*
            #[doc = ""]
            #[doc = #doc]
            #vis fn #ident(
                &self,
                #parameters
            ) -> #private::Ask<'_, #private::ActorPort<#ty>, #message> {
                self.raw.ask(#value)
            }
        }
    }

    /// Returns the enum of the envelopes in the mailbox. It has one variant per row, so that no
    /// message need be boxed or erased.
    fn envelope(&self) -> TokenStream {
        let (private, ty, generics) = (self.private(), &self.actor.ty, &self.actor.generics);
        let clause = &generics.where_clause;
        let variants = self.rows.iter().enumerate().map(|(index, row)| {
            let AcceptedMessage { input, conditions, .. } = row;
            let (variant, held, private) =
                (variant(index), row.held(), self.root().private(row.at));
            let form = row.form();
            quote_spanned! {row.at=>
                #(#conditions)*
                #variant(#held, #private::ReplyTo<<#ty as #private::#form<#input>>::Reply>)
            }
        });
        quote_spanned! {self.at()=>
            #[allow(
                private_interfaces, clippy::large_enum_variant,
                reason = "not reachable by name; its size is checked below"
            )]
            pub enum __Envelope #generics #clause {
                #(#variants,)*
                ClosureMessage(#private::ClosureMessage<#ty>),
            }
        }
    }

    fn handlers_impl(&self) -> TokenStream {
        let (private, client, ty) = (self.private(), self.client_name(), &self.actor.ty);
        let (params, args, clause) = self.actor.generics.split_for_impl();
        let routes = self.rows.iter().map(|AcceptedMessage { conditions, message, at, .. }| {
            let private = self.root().private(*at);
            quote_spanned!(*at=> #(#conditions)* #private::Route::<Self>::of::<#message>())
        });
        let rows =
            |waits: bool| self.rows.iter().enumerate().filter(move |(_, row)| row.waits() == waits);
        let at_once = rows(false).map(|(index, row)| self.arm_at_once(index, row));
        let waiting = rows(true).map(|(index, row)| self.arm(index, row));
        let has_more = self.rows.iter().any(|row| !row.waits());
        // `receive_at_once` has taken these messages before: the arm only makes the match
        // exhaustive.
        let rest = quote_spanned!(self.at()=>
            rest => #private::receive_rest(self, rest, cx),
        );
        let rest = has_more.then_some(rest);
        quote_spanned! {self.at()=>
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #params #private::Handlers for #ty #clause {
                type Envelope = __Envelope #args;
                type Client = #client #args;
                const ROUTES: &'static [#private::Route<Self>] = {
                    let routes: &'static [#private::Route<Self>] = &[#(#routes),*];
                    #private::distinct(routes);
                    routes
                };
                fn receive_at_once(
                    &mut self,
                    envelope: &mut ::core::option::Option<Self::Envelope>,
                    cx: &mut #private::Context<Self>,
                ) {
                    match envelope {
                        #(#at_once)*
                        _ => {}
                    }
                }
                #[allow(
                    clippy::manual_async_fn, unreachable_patterns,
                    reason = "the arguments of an `async fn` are stored twice; a condition may \
                        leave out the rest"
                )]
                fn receive(
                    &mut self,
                    envelope: Self::Envelope,
                    cx: &mut #private::Context<Self>,
                ) -> impl #private::Future<Output = ()> + ::core::marker::Send {
                    async move {
                        match envelope {
                            #(#waiting)*
                            __Envelope::ClosureMessage(task) => task(self, cx).await,
                            #rest
                        }
                    }
                }
                fn task(task: #private::ClosureMessage<Self>) -> Self::Envelope {
                    __Envelope::ClosureMessage(task)
                }
                fn client(raw: #private::RawActorRef<Self>) -> #client #args {
                    #client { raw }
                }
                fn raw(client: &#client #args) -> &#private::RawActorRef<Self> {
                    &client.raw
                }
            }
        }
    }

    /// Returns an arm of the match in `receive_at_once`, which takes the message out of the
    /// envelope and handles it.
    fn arm_at_once(&self, index: usize, row: &AcceptedMessage<'_>) -> TokenStream {
        let (variant, conditions, answered) = (variant(index), &row.conditions, self.answered(row));
        quote_spanned! {row.at=>
            #(#conditions)*
            ::core::option::Option::Some(__Envelope::#variant(..)) => {
                if let ::core::option::Option::Some(__Envelope::#variant(input, reply)) =
                    envelope.take()
                {
                    #answered
                }
            }
        }
    }

    /// Returns an arm of the match in `receive`, which handles a message.
    fn arm(&self, index: usize, row: &AcceptedMessage<'_>) -> TokenStream {
        let (variant, conditions, answered) = (variant(index), &row.conditions, self.answered(row));
        quote_spanned! {row.at=>
            #(#conditions)*
            __Envelope::#variant(input, reply) => { #answered }
        }
    }

    /// Returns code that handles the message `input`, and gives its answer to `reply`.
    fn answered(&self, row: &AcceptedMessage<'_>) -> TokenStream {
        let (private, input) = (self.root().private(row.at), &row.input);
        let name = Ident::new("input", row.at);
        let value = if row.boxed { quote!(*#name) } else { quote!(#name) };
        let delegates = row.method.is_some_and(|method| method.delegates);
        let to = delegates.then(|| quote_spanned!(row.at=> reply,));
        let form = row.form();
        let handle = quote_spanned! {row.at=>
            <Self as #private::#form<#input>>::handle(self, #value, #to cx)
        };
        match (row.waits(), delegates) {
            (true, true) => quote_spanned!(row.at=> #handle.await),
            (true, false) => quote_spanned! {row.at=>
                let answer = #private::answering(&reply, #handle).await;
                reply.send(answer)
            },
            (false, true) => quote_spanned!(row.at=> #private::now(#handle)),
            (false, false) => quote_spanned!(row.at=> reply.send(#private::now(#handle))),
        }
    }

    fn accepts(&self, index: usize, row: &AcceptedMessage<'_>) -> TokenStream {
        let (private, ty) = (self.root().private(row.at), &self.actor.ty);
        let (params, _, clause) = self.actor.generics.split_for_impl();
        let (variant, AcceptedMessage { input, message, conditions, .. }) = (variant(index), row);
        let form = row.form();
        let name = Ident::new("input", row.at);
        let value = if row.boxed { quote!(::std::boxed::Box::new(#name)) } else { quote!(#name) };
        // The size of a generic message is known only where the actor is used.
        let size_check = self.is_generic().then(|| row.size_check());
        let size_check = size_check.map(|check| quote!(const { #check };));
        let waits = row.waits();
        let answers = !waits && row.method.is_some_and(|method| !method.delegates);
        let answer = answers.then(|| {
            quote_spanned! {row.at=>
                const ANSWER: ::core::option::Option<
                    #private::SyncHandler<Self, Self::Input, Self::Reply>,
                > = ::core::option::Option::Some(|actor, input, cx| {
                    #private::now(<Self as #private::#form<#input>>::handle(actor, input, cx))
                });
            }
        });
        quote_spanned! {row.at=>
            #(#conditions)*
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #params #private::Accepts<#message> for #ty #clause {
                type Input = #input;
                type Reply = <#ty as #private::#form<#input>>::Reply;
                const WAITS: bool = #waits;
                #answer
                #[inline]
                fn envelope(
                    #name: Self::Input,
                    reply: #private::ReplyTo<Self::Reply>,
                ) -> Self::Envelope {
                    #size_check
                    __Envelope::#variant(#value, reply)
                }
            }
        }
    }

    /// Returns the checks at the actor's declaration: the sizes of messages, and that their
    /// identities differ. A generic actor has none.
    fn checks(&self) -> TokenStream {
        if self.is_generic() {
            return TokenStream::new();
        }
        let (private, ty) = (self.private(), &self.actor.ty);
        let sizes = self.rows.iter().map(|row| {
            let (conditions, check) = (&row.conditions, row.size_check());
            quote!(#(#conditions)* const _: () = #check;)
        });
        quote_spanned! {self.at()=>
            const _: () = #private::distinct::<#ty>(<#ty as #private::Handlers>::ROUTES);
            #(#sizes)*
        }
    }

    /// Returns checks that the actor serves all of each protocol that one of its handlers names.
    fn protocol_checks(&self) -> TokenStream {
        let (ty, (params, _, clause)) = (&self.actor.ty, self.actor.generics.split_for_impl());
        let mut seen: Vec<&Path> = Vec::new();
        let protocols = self.rows.iter().filter_map(|row| row.method?.protocol.as_ref());
        let mut checks = TokenStream::new();
        for protocol in protocols {
            if seen.contains(&protocol) {
                continue;
            }
            let at = at(protocol.span());
            let (private, number) = (self.root().private(at), seen.len());
            seen.push(protocol);
            checks.extend(if self.is_generic() {
                let check = format_ident!("__serves{number}", span = at);
                quote_spanned! {at=>
                    #[allow(dead_code, reason = "it is compiled, and not called")]
                    fn #check #params () #clause {
                        const { #private::serves::<#protocol, #ty>() }
                    }
                }
            } else {
                quote_spanned!(at=> const _: () = #private::serves::<#protocol, #ty>();)
            });
        }
        checks
    }

    /// Returns the span of generated code, at the position of the actor's name in the block's
    /// header.
    fn at(&self) -> Span {
        at(self.actor.ident.span())
    }

    fn is_generic(&self) -> bool {
        !self.actor.generics.params.is_empty()
    }
}

fn variant(index: usize) -> Ident {
    format_ident!("M{index}")
}
