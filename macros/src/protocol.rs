//! `#[protocol]`: messages and their replies, apart from the actors that serve them.
//!
//! Each method of the trait is parsed into a [`MethodDecl`], from which its message is generated.
//! The protocol becomes a type of the trait's name, its client, and the impls that say which
//! messages it includes and which actors serve it. The trait itself is removed: it declares
//! messages, and nothing implements it.

use crate::attr::{CratePath, HandlerOptions};
use crate::errors::Errors;
use crate::handlers::generated::{GeneratedMessage, HandlerParts};
use crate::handlers::is_handler;
use crate::handlers::method::{Parameters, shown};
use crate::handlers::owner::HandlerOwner;
use crate::message::module_name;
use crate::names;
use crate::spans::at;
use crate::types::{fix_width, impl_trait_in, text_of};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::{
    Attribute, Error, Generics, Ident, ItemTrait, LitStr, Result, ReturnType, TraitItem,
    TraitItemFn, Type, Visibility, parse_quote,
};

/// Expands `#[protocol(attr)] item`.
pub(crate) fn expand(attr: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let options = errors.keep(ProtocolOptions::parse(attr)).unwrap_or_default();
    let Some(item) = errors.keep(syn::parse2::<ItemTrait>(item.clone())) else {
        let errors = errors.into_tokens();
        return quote!(#item #errors);
    };
    errors.keep(check_trait(&item));
    let owner = owner(&item.ident, options.root);
    let mut calls: Vec<MethodDecl> = Vec::new();
    for item in item.items {
        if let Some(call) = MethodDecl::parse(item, &owner, &mut errors) {
            calls.push(call);
        }
    }
    let attributes = shown(&item.attrs);
    let name = options.name.map_or_else(|| module_name(&owner.ident), |name| quote!(#name));
    let protocol = Protocol { owner, vis: item.vis, attributes, name, calls };
    let errors = errors.into_tokens();
    quote!(#errors #protocol)
}

/// `#[protocol(..)]`.
#[derive(Default)]
struct ProtocolOptions {
    root: CratePath,
    name: Option<LitStr>,
}

impl ProtocolOptions {
    fn parse(tokens: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        let each = syn::meta::parser(|meta| {
            if meta.path.is_ident("crate") {
                options.root = CratePath::parse(&meta)?;
            } else if meta.path.is_ident("name") {
                options.name = Some(crate::attr::text(&meta)?);
            } else {
                return Err(meta.error("`#[protocol]` takes `name = \"..\"` and `crate = path`"));
            }
            Ok(())
        });
        each.parse2(tokens)?;
        Ok(options)
    }
}

/// Returns the protocol as the owner of the messages that are generated for its methods.
fn owner(ident: &Ident, root: CratePath) -> HandlerOwner {
    HandlerOwner {
        root,
        ty: parse_quote!(#ident),
        ident: ident.clone(),
        generics: Generics::default(),
    }
}

fn check_trait(item: &ItemTrait) -> Result<()> {
    let mut errors = Errors::default();
    if let Some(parameter) = item.generics.params.first() {
        errors.push(Error::new_spanned(parameter, "a protocol has no generic parameters"));
    }
    if let Some(bound) = item.supertraits.first() {
        errors.push(Error::new_spanned(
            bound,
            "a protocol stands for itself: it extends no trait. An actor may serve several",
        ));
    }
    errors.into_result()
}

/// A parsed method of a protocol.
struct MethodDecl {
    ident: Ident,
    attributes: Vec<Attribute>,
    /// The message generated for it; `None` if its parameter is the message.
    generated: Option<GeneratedMessage>,
    message: Type,
    reply: Type,
}

impl MethodDecl {
    fn parse(item: TraitItem, owner: &HandlerOwner, all_errors: &mut Errors) -> Option<Self> {
        let TraitItem::Fn(mut function) = item else {
            all_errors.push(Error::new_spanned(item, "a protocol has methods only"));
            return None;
        };
        let mut errors = Errors::default();
        let own = function.attrs.iter().position(is_handler).map(|at| function.attrs.remove(at));
        let options = own.and_then(|own| errors.keep(HandlerOptions::parse(&own)));
        let options = options.unwrap_or_default();
        errors.keep(names::check_method(&function.sig.ident));
        errors.keep(check_method(&function, &options));
        let mut parameters = Parameters::parse(&mut function.sig, &options, owner, &mut errors);
        errors.keep(parameters.check_for_protocol(&function.sig.ident));
        all_errors.keep(errors.into_result())?;
        let ident = function.sig.ident;
        let mut reply = match function.sig.output {
            ReturnType::Default => parse_quote!(()),
            ReturnType::Type(_, ty) => *ty,
        };
        parameters.refused.keep(fix_width(&mut reply));
        all_errors.keep(parameters.refused.into_result());
        let attributes = shown(&function.attrs);
        let Parameters { whole, fields, .. } = parameters;
        let (message, generated) = match whole {
            Some(message) => (message, None),
            None => {
                let made =
                    GeneratedMessage::new(&ident, &reply, fields, &options, owner, all_errors)?;
                (made.ty(), Some(made))
            }
        };
        Some(MethodDecl { ident, attributes, generated, message, reply })
    }

    /// Returns the method of the client.
    fn client_method(&self, protocol: &Protocol) -> TokenStream {
        let at = at(self.ident.span());
        let (private, this, vis) = (protocol.root().private(at), protocol.ident(), &protocol.vis);
        let MethodDecl { ident, attributes, message, .. } = self;
        let (parameters, value) = match &self.generated {
            None => (quote!(msg: #message), quote!(msg)),
            Some(generated) => (generated.parameters(), generated.value()),
        };
        quote_spanned! {at=>
            #(#attributes)*
            #[doc = ""]
            #[doc = "Asks the actor, and waits for its reply once awaited."]
            #vis fn #ident(&self, #parameters) -> #private::RefAsk<'_, #this, #message> {
                self.raw.ask(#value)
            }
        }
    }

    /// Returns the impls of `Method` and `Parameter` for the method with the index `place`, or
    /// `None` if its message is not generated.
    fn method(&self, place: usize, protocol: &Ident, root: &CratePath) -> Option<TokenStream> {
        let MethodDecl { ident, message, reply, .. } = self;
        let generated = self.generated.as_ref()?;
        let (at, private) = (at(ident.span()), root.private(at(ident.span())));
        let (pattern, tuple) = (generated.pattern(), generated.tuple());
        let types: Vec<_> = generated.sorted().map(|field| &field.ty).collect();
        let parameters = types.iter().enumerate().map(|(at, ty)| {
            quote! {
                #[diagnostic::do_not_recommend]
                impl #private::Parameter<#private::MethodIndex<#place>, #at> for #protocol {
                    type Type = #ty;
                }
            }
        });
        let message_name = Ident::new("message", at);
        Some(quote_spanned! {at=>
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #private::Method<#private::MethodIndex<#place>> for #protocol {
                type Message = #message;
                type Parameters = (#(#types,)*);
                type Reply = #reply;
                #[inline]
                fn open(#message_name: #message) -> Self::Parameters {
                    let #pattern = #message_name;
                    #tuple
                }
                #[inline]
                fn make(#tuple: Self::Parameters) -> #message {
                    #pattern
                }
            }
            #(#parameters)*
        })
    }

    /// Returns the `Signature` with the method's name and parameters, which its handler must have,
    /// too.
    fn signature(&self, private: &TokenStream) -> TokenStream {
        let (name, reply) = (self.ident.unraw().to_string(), &self.reply);
        let (message, parameters, types) = match &self.generated {
            Some(generated) => {
                let message = generated.ident.unraw().to_string();
                (message, generated.parameter_names(), generated.parameters())
            }
            None => {
                let message = &self.message;
                (String::new(), "`msg`".to_owned(), quote!(msg: #message))
            }
        };
        let is_unit = matches!(reply, Type::Tuple(tuple) if tuple.elems.is_empty());
        let output = if is_unit { String::new() } else { format!(" -> {}", text_of(reply)) };
        let other = format!(
            "the protocol has `fn {name}({}){output}`: its handler takes the same parameters, \
             under the same names",
            text_of(&types)
        );
        quote! {
            #private::Signature {
                name: #name, message: #message, parameters: #parameters, other: #other,
            }
        }
    }
}

fn check_method(function: &TraitItemFn, options: &HandlerOptions) -> Result<()> {
    let (mut errors, signature) = (Errors::default(), &function.sig);
    let mut refuse = |token: &dyn ToTokens, why: &str| errors.push(Error::new_spanned(token, why));
    if let Some(parameter) = signature.generics.params.first() {
        refuse(parameter, "a method of a protocol has no generic parameters");
    }
    if let Some(me) = signature.receiver() {
        refuse(me, "a method of a protocol says what is sent, and takes no `self`");
    }
    if let Some(word) = &signature.asyncness {
        refuse(word, "whether a handler waits is its actor's affair: leave `async` out here");
    }
    if let Some(word) = &signature.unsafety {
        refuse(word, "a method of a protocol cannot be unsafe");
    }
    if let Some(body) = &function.default {
        refuse(body, "a protocol says what is sent, and not what is done: end this with `;`");
    }
    if let ReturnType::Type(_, output) = &signature.output
        && let Some(unnamed) = impl_trait_in(output)
    {
        refuse(
            &unnamed,
            "the reply is a type with a name, so that it can be read where it arrives",
        );
    }
    if let Some(condition) = function.attrs.iter().find(|a| a.path().is_ident("cfg")) {
        refuse(condition, "both sides have the whole protocol: no method of it is conditional");
    }
    if let Some(token) = options.only_for_handlers() {
        refuse(&token, "a method of a protocol takes `name = Message` and `derive(..)`");
    }
    errors.into_result()
}

/// A parsed protocol, from which its items are generated.
struct Protocol {
    owner: HandlerOwner,
    vis: Visibility,
    attributes: Vec<Attribute>,
    /// An expression for the name that the protocol has among nodes.
    name: TokenStream,
    calls: Vec<MethodDecl>,
}

impl ToTokens for Protocol {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let (this, vis, attributes) = (self.ident(), &self.vis, &self.attributes);
        let messages = self.calls.iter().filter_map(|call| {
            let MethodDecl { ident, attributes, .. } = call;
            let method = HandlerParts { ident, vis, attributes };
            Some(call.generated.as_ref()?.tokens(&method, &self.owner))
        });
        let (client, impls) = (self.client(), self.impls());
        let doc = format!("A protocol: [`{this}Client`] has its methods.");
        tokens.extend(quote_spanned! {self.at()=>
            #(#messages)*
            #(#attributes)*
            #[doc = ""]
            #[doc = #doc]
            #[allow(dead_code, reason = "a program may only serve it")]
            #vis enum #this {}
            #client
            const _: () = { #impls };
        });
    }
}

impl Protocol {
    fn ident(&self) -> &Ident {
        &self.owner.ident
    }

    fn root(&self) -> &CratePath {
        &self.owner.root
    }

    fn at(&self) -> Span {
        at(self.ident().span())
    }

    fn client(&self) -> TokenStream {
        let (private, this, vis) = (self.root().private(self.at()), self.ident(), &self.vis);
        let client = format_ident!("{this}Client");
        let methods = self.calls.iter().map(|call| call.client_method(self));
        let doc = format!("The methods of a reference to an actor that serves [`{this}`].");
        quote_spanned! {self.at()=>
            #[doc = #doc]
            #[allow(dead_code, reason = "a program may only serve it")]
            #vis struct #client {
                raw: #private::RawRef<#this>,
            }
            #[allow(
                dead_code, clippy::too_many_arguments,
                reason = "the methods have the protocol's own parameters"
            )]
            impl #client {
                #(#methods)*
            }
        }
    }

    fn impls(&self) -> TokenStream {
        let (private, this, name) = (self.root().private(self.at()), self.ident(), &self.name);
        let client = format_ident!("{this}Client");
        let rows = self.calls.iter().map(|MethodDecl { message, reply, ident, .. }| {
            let (at, private) = (at(ident.span()), self.root().private(at(ident.span())));
            quote_spanned!(at=> #private::ProtocolMessage::of::<#message, #reply>())
        });
        let includes = self.calls.iter().enumerate().map(|(place, call)| {
            let MethodDecl { message, reply, ident, .. } = call;
            let (at, private) = (at(ident.span()), self.root().private(at(ident.span())));
            quote_spanned! {at=>
                #[automatically_derived]
                #[diagnostic::do_not_recommend]
                impl #private::Includes<#message> for #this {
                    type Reply = #reply;
                    type Message = #message;
                    const PLACE: usize = #place;
                }
            }
        });
        let methods = self.calls.iter().enumerate();
        let methods = methods.filter_map(|(place, call)| call.method(place, this, self.root()));
        let all: Vec<_> = self.calls.iter().map(|call| format!("`{}`", call.ident)).collect();
        let other = format!("`{this}` has no method of this name: it has {}", all.join(", "));
        let signatures = self.calls.iter().map(|call| call.signature(&private));
        let bounds = self.calls.iter().map(|MethodDecl { message, reply, ident, .. }| {
            let (at, private) = (at(ident.span()), self.root().private(at(ident.span())));
            quote_spanned!(at=> #private::Accepts<#message, Reply = #reply>)
        });
        quote_spanned! {self.at()=>
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #private::Protocol for #this {
                const NAME: &'static str = #name;
                type Client = #client;
                const CALLS: &'static [#private::ProtocolMessage] = &[#(#rows),*];
                const SIGNATURES: &'static [#private::Signature] = &[#(#signatures),*];
                const OTHER: &'static str = #other;
                fn client(raw: #private::RawRef<Self>) -> Self::Client {
                    #client { raw }
                }
                fn raw(client: &Self::Client) -> &#private::RawRef<Self> {
                    &client.raw
                }
            }
            #(#includes)*
            #(#methods)*
            #[automatically_derived]
            impl<__Actor> #private::ServedBy<__Actor> for #this
            where
                __Actor: #private::Handlers #(+ #bounds)*,
            {
            }
            // Evaluated here, so that a message that cannot cross nodes is an error of the
            // protocol.
            const _: &[#private::ProtocolMessage] = <#this as #private::Protocol>::CALLS;
        }
    }
}
