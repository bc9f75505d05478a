//! The arguments of the attributes, parsed once into plain values; each error points at its
//! argument.
//!
//! No other module looks at the tokens of our attributes.

use crate::spans::located;
use crate::types::view_of;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, Ident, LitInt, LitStr, Path, Result, Token, Type, parse_quote};

/// The path under which the user's crate knows `ringpost`: `crate = path`, else `::ringpost`.
#[derive(Clone)]
pub(crate) struct CratePath(Path);

impl Default for CratePath {
    fn default() -> Self {
        CratePath(parse_quote!(::ringpost))
    }
}

impl CratePath {
    /// Returns the path of `__private`, the module that only generated code uses. Its tokens are at
    /// the position `at`, because the compiler reports an error about a path where the path begins.
    pub(crate) fn private(&self, at: Span) -> TokenStream {
        let root = located(self, at);
        quote_spanned!(at=> #root::__private)
    }

    pub(crate) fn parse(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        meta.value()?.call(Path::parse_mod_style).map(CratePath)
    }
}

impl ToTokens for CratePath {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}

/// `#[message(..)]` on a type.
#[derive(Default)]
pub(crate) struct MessageOptions {
    pub(crate) root: CratePath,
    pub(crate) name: Option<LitStr>,
    /// The version, 1 or more, with its span for errors.
    pub(crate) version: Option<(u64, Span)>,
    pub(crate) local: bool,
}

impl MessageOptions {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        let each = syn::meta::parser(|meta| {
            if meta.path.is_ident("crate") {
                options.root = CratePath::parse(&meta)?;
            } else if meta.path.is_ident("name") {
                options.name = Some(text(&meta)?);
            } else if meta.path.is_ident("version") {
                options.version = Some(number(&meta)?);
            } else if meta.path.is_ident("local") {
                options.local = true;
            } else {
                return Err(meta.error(
                    "`#[message]` takes `name = \"..\"`, `version = N`, `local` and `crate = path`",
                ));
            }
            Ok(())
        });
        each.parse2(tokens)?;
        Ok(options)
    }
}

/// `#[actor(..)]`.
#[derive(Default)]
pub(crate) struct ActorOptions {
    pub(crate) root: CratePath,
    pub(crate) name: Option<LitStr>,
}

impl ActorOptions {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        let each = syn::meta::parser(|meta| {
            if meta.path.is_ident("crate") {
                options.root = CratePath::parse(&meta)?;
            } else if meta.path.is_ident("name") {
                options.name = Some(text(&meta)?);
            } else {
                return Err(meta.error("`#[actor]` takes `name = \"..\"` and `crate = path`"));
            }
            Ok(())
        });
        each.parse2(tokens)?;
        Ok(options)
    }
}

/// `#[handlers(..)]`: the messages of hand-written handlers.
#[derive(Default)]
pub(crate) struct HandlersOptions {
    pub(crate) root: CratePath,
    pub(crate) listed: Vec<Type>,
}

impl HandlersOptions {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        for item in Punctuated::<HandlersItem, Token![,]>::parse_terminated.parse2(tokens)? {
            match item {
                HandlersItem::CratePath(root) => options.root = root,
                HandlersItem::Listed(message) => options.listed.push(message),
            }
        }
        Ok(options)
    }
}

enum HandlersItem {
    CratePath(CratePath),
    Listed(Type),
}

impl Parse for HandlersItem {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(Token![crate]) && input.peek2(Token![=]) {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            return input
                .call(Path::parse_mod_style)
                .map(|path| HandlersItem::CratePath(CratePath(path)));
        }
        let message: Type = input.parse()?;
        match view_of(&message).as_ref().unwrap_or(&message) {
            Type::Path(_) => Ok(HandlersItem::Listed(message)),
            other => Err(Error::new_spanned(
                other,
                "expected the message of a hand-written handler: `M` or `View<M>`",
            )),
        }
    }
}

/// `#[handler(..)]` on a method.
#[derive(Default)]
pub(crate) struct HandlerOptions {
    /// Name of the generated message.
    pub(crate) name: Option<Ident>,
    /// The paths in `derive(..)`, which are derives for the generated message.
    pub(crate) derives: Vec<Path>,
    /// The generated message never leaves its node.
    pub(crate) local: Option<Ident>,
    /// The message lies behind a pointer in the mailbox.
    pub(crate) boxed: Option<Ident>,
    /// The protocol in which this handler serves the method of the same name.
    pub(crate) protocol: Option<Path>,
}

impl HandlerOptions {
    pub(crate) fn parse(attribute: &Attribute) -> Result<Self> {
        let mut options = Self::default();
        if matches!(attribute.meta, syn::Meta::Path(_)) {
            return Ok(options);
        }
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                options.name = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("derive") {
                let list;
                syn::parenthesized!(list in meta.input);
                options.derives.extend(list.parse_terminated(Path::parse_mod_style, Token![,])?);
            } else if meta.path.is_ident("local") {
                options.local = meta.path.get_ident().cloned();
            } else if meta.path.is_ident("boxed") {
                options.boxed = meta.path.get_ident().cloned();
            } else if meta.path.is_ident("protocol") {
                options.protocol = Some(meta.value()?.call(Path::parse_mod_style)?);
            } else {
                return Err(meta.error(
                    "`#[handler]` takes `name = Message`, `derive(..)`, `local`, `boxed` and \
                     `protocol = Protocol`",
                ));
            }
            Ok(())
        })?;
        Ok(options)
    }

    /// Returns the first argument that only concerns a generated message (`name`, `derive` or
    /// `local`), as a token for an error.
    pub(crate) fn about_generated(&self) -> Option<TokenStream> {
        self.name.as_ref().map(ToTokens::to_token_stream).or(self.about_own())
    }

    /// Returns the first argument that only concerns a message generated for this handler, and not
    /// for a protocol (`derive` or `local`), as a token for an error.
    pub(crate) fn about_own(&self) -> Option<TokenStream> {
        let derive = self.derives.first().map(ToTokens::to_token_stream);
        derive.or(self.local.as_ref().map(ToTokens::to_token_stream))
    }

    /// Returns the first argument that a method of a protocol cannot have (`local`, `boxed` or
    /// `protocol`), as a token for an error.
    pub(crate) fn only_for_handlers(&self) -> Option<TokenStream> {
        let [local, boxed] = [&self.local, &self.boxed].map(Option::as_ref);
        let words = local.or(boxed).map(ToTokens::to_token_stream);
        words.or(self.protocol.as_ref().map(ToTokens::to_token_stream))
    }
}

/// `#[message(..)]` on a field.
#[derive(Default)]
pub(crate) struct FieldOptions {
    pub(crate) layout: FieldLayout,
    /// The first version of the message that has the field.
    pub(crate) since: Option<(u64, Span)>,
    /// The value of the field in a message of an earlier version; `None` for `Default::default()`.
    pub(crate) default: Option<Expr>,
}

/// How a field takes part in its message's layout fingerprint.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) enum FieldLayout {
    /// By the fingerprint of its type.
    #[default]
    Checked,
    /// `#[message(opaque)]`: by the text of its type and the size of its archive.
    Opaque,
    /// `#[message(recursive)]`: by the text of its type.
    Recursive,
}

impl FieldOptions {
    /// Returns true if the field's type is opaque.
    pub(crate) fn is_opaque(attributes: &[Attribute]) -> bool {
        Self::take(&mut attributes.to_vec()).is_ok_and(|said| said.layout == FieldLayout::Opaque)
    }

    /// Reads and removes the `#[message(..)]` attribute of a field.
    pub(crate) fn take(attributes: &mut Vec<Attribute>) -> Result<Self> {
        let mut options = FieldOptions::default();
        let ours = attributes.extract_if(.., |a| a.path().is_ident("message")).collect::<Vec<_>>();
        for attribute in ours {
            attribute.parse_nested_meta(|meta| {
                let said = if meta.path.is_ident("opaque") {
                    FieldLayout::Opaque
                } else if meta.path.is_ident("recursive") {
                    FieldLayout::Recursive
                } else if meta.path.is_ident("since") {
                    options.since = Some(number(&meta)?);
                    return Ok(());
                } else if meta.path.is_ident("default") {
                    options.default = Some(meta.value()?.parse()?);
                    return Ok(());
                } else {
                    return Err(meta.error(
                        "a field takes `since = N`, `default = ..`, `opaque` and `recursive`",
                    ));
                };
                if options.layout != FieldLayout::Checked {
                    return Err(meta.error("a field is either `opaque` or `recursive`, once"));
                }
                options.layout = said;
                Ok(())
            })?;
        }
        match &options {
            FieldOptions { since: None, default: Some(default), .. } => Err(Error::new_spanned(
                default,
                "a default is for messages that lack the field: say `since = N`, too, the version \
                 that gained it",
            )),
            _ => Ok(options),
        }
    }
}

/// Parses the number of a version, which is 1 or more.
fn number(meta: &ParseNestedMeta<'_>) -> Result<(u64, Span)> {
    let number: LitInt = meta.value()?.parse()?;
    match number.base10_parse()? {
        0 => Err(Error::new(number.span(), "versions are counted from 1")),
        version => Ok((version, number.span())),
    }
}

pub(crate) fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let text: LitStr = meta.value()?.parse()?;
    if text.value().is_empty() {
        return Err(Error::new(text.span(), "a name has at least one character"));
    }
    Ok(text)
}
