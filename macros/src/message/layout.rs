//! The layout fingerprint of a message: what goes into it, as tokens that the compiler computes.
//!
//! In: the rkyv format, the version, names and order of fields and variants, the layouts of the
//! fields' types, discriminants, and those `#[rkyv(..)]` arguments that change the archive. Not in:
//! the type's own name (that is its identity), derives, docs, bounds. The layout of an earlier
//! version is made of the first parts of the same list.

use crate::attr::{FieldLayout, FieldOptions, Root};
use crate::errors::Errors;
use crate::spans;
use crate::types::mentions_itself;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Expr, Field, Fields, Meta, Type, parse_quote};

/// Arguments of `#[rkyv(..)]` that leave the archive as it is.
const NEUTRAL: &[&str] = &[
    "archive_bounds",
    "archived",
    "bytecheck",
    "compare",
    "crate",
    "derive",
    "deserialize_bounds",
    "getter",
    "omit_bounds",
    "resolver",
    "serialize_bounds",
];

/// What a message's layout is made of.
#[derive(Default)]
pub(super) struct Layout {
    /// In order of declaration.
    parts: Vec<Part>,
    /// Types of the fields that need a schema of their own.
    pub(super) checked: Vec<Type>,
    /// Some field contains the message itself, seen or said.
    pub(super) recursive: bool,
    /// Its fields, in order of declaration; of an enum, those of all variants.
    pub(super) fields: Vec<Taken>,
}

/// A field, as far as versions concern it.
pub(super) struct Taken {
    pub(super) at: Span,
    pub(super) since: Option<(u64, Span)>,
    pub(super) default: Option<Expr>,
    /// Parts of the layout before it.
    parts: usize,
}

enum Part {
    /// A name, an attribute or the text of a type.
    Text(String),
    /// The layout of a type.
    LayoutOf(Type),
    /// The size of a type's archive.
    SizeOf(Type),
}

impl Layout {
    /// Reads the fields, and removes our attributes from them.
    pub(super) fn take(item: &mut DeriveInput, errors: &mut Errors) -> Self {
        let mut layout = Layout::default();
        layout.attributes(&item.attrs);
        let ident = item.ident.clone();
        match &mut item.data {
            Data::Struct(data) => layout.fields(&mut data.fields, &ident, errors),
            Data::Enum(data) => {
                for variant in &mut data.variants {
                    refuse_cfg(&variant.attrs, "variant", errors);
                    layout.text("variant");
                    layout.text(&variant.ident);
                    if let Some((_, discriminant)) = &variant.discriminant {
                        layout.text(squeezed(discriminant));
                    }
                    layout.attributes(&variant.attrs);
                    layout.fields(&mut variant.fields, &ident, errors);
                }
            }
            Data::Union(data) => {
                errors.push(Error::new_spanned(data.union_token, "a union cannot be a message"));
            }
        }
        layout
    }

    /// Returns an expression of type `u128`: the layout of a version that has the first `fields`
    /// fields, and whose archive is of type `archived`.
    pub(super) fn expression(
        &self,
        root: &Root,
        at: Span,
        (version, fields): (u64, usize),
        archived: &TokenStream,
    ) -> TokenStream {
        let private = root.private(at);
        let hash = Ident::new("hash", Span::mixed_site());
        let parts = self.fields.get(fields).map_or(self.parts.len(), |field| field.parts);
        let steps = self.parts[..parts].iter().map(|part| match part {
            Part::Text(text) => quote!(let #hash = #hash.str(#text);),
            Part::LayoutOf(ty) => {
                let at = spans::at(ty.span());
                let private = root.private(at);
                let layout = quote_spanned!(at=> <#ty as #private::Schema>::LAYOUT);
                quote!(let #hash = #hash.num(#layout);)
            }
            Part::SizeOf(ty) => quote! {
                let #hash =
                    #hash.num(::core::mem::size_of::<#private::rkyv::Archived<#ty>>() as u128);
            },
        });
        quote! {{
            let #hash = #private::Hash::new("layout").num(#private::FORMAT).num(#version as u128);
            #(#steps)*
            #hash.num(::core::mem::size_of::<#archived>() as u128).end()
        }}
    }

    fn text(&mut self, text: impl ToString) {
        self.parts.push(Part::Text(text.to_string()));
    }

    fn fields(&mut self, fields: &mut Fields, message: &Ident, errors: &mut Errors) {
        for (index, field) in fields.iter_mut().enumerate() {
            refuse_cfg(&field.attrs, "field", errors);
            let parts = self.parts.len();
            match &field.ident {
                Some(name) => self.text(name),
                None => self.text(index),
            }
            if let Some(said) = errors.keep(FieldOptions::take(&mut field.attrs)) {
                let FieldOptions { layout, since, default } = said;
                self.fields.push(Taken { at: field.span(), since, default, parts });
                self.field(field, layout, message);
            }
        }
    }

    fn field(&mut self, field: &mut Field, said: FieldLayout, message: &Ident) {
        let replaced = self.attributes(&field.attrs);
        let ty = field.ty.clone();
        if said == FieldLayout::Recursive || mentions_itself(&ty, message) {
            self.recursive = true;
            self.text(squeezed(&ty));
            field.attrs.push(parse_quote!(#[rkyv(omit_bounds)]));
        } else if said == FieldLayout::Opaque {
            self.text(squeezed(&ty));
            if !replaced {
                self.parts.push(Part::SizeOf(ty));
            }
        } else {
            self.parts.push(Part::LayoutOf(ty.clone()));
            self.checked.push(ty);
        }
    }

    /// Adds the rkyv arguments that change the archive. Says whether `with` is one of them: the
    /// field's archive is then not that of its type.
    fn attributes(&mut self, attributes: &[Attribute]) -> bool {
        let mut with = false;
        for attribute in attributes.iter().filter(|a| a.path().is_ident("rkyv")) {
            let mut kept = Vec::new();
            let read = attribute.parse_nested_meta(|meta| {
                let neutral = NEUTRAL.iter().any(|name| meta.path.is_ident(name));
                with |= meta.path.is_ident("with");
                let value = value_of(&meta)?;
                if !neutral {
                    kept.push(format!("{}{}", squeezed(&meta.path), squeezed(&value)));
                }
                Ok(())
            });
            // What does not read like this is an error of rkyv's derive, which says more about it.
            match read {
                Ok(()) => self.parts.extend(kept.into_iter().map(Part::Text)),
                Err(_) => self.text(squeezed(attribute)),
            }
        }
        with
    }
}

/// Removes the attributes of rkyv.
pub(super) fn strip(item: &mut DeriveInput) {
    let strip = |attributes: &mut Vec<Attribute>| attributes.retain(|a| !a.path().is_ident("rkyv"));
    strip(&mut item.attrs);
    match &mut item.data {
        Data::Struct(data) => data.fields.iter_mut().for_each(|field| strip(&mut field.attrs)),
        Data::Enum(data) => {
            for variant in &mut data.variants {
                strip(&mut variant.attrs);
                variant.fields.iter_mut().for_each(|field| strip(&mut field.attrs));
            }
        }
        Data::Union(_) => {}
    }
}

/// Returns those attributes of rkyv that change the archive of the type they are on.
pub(super) fn archive_attributes(attributes: &[Attribute]) -> Vec<Attribute> {
    let ours = attributes.iter().filter(|attribute| attribute.path().is_ident("rkyv"));
    ours.filter_map(|attribute| {
        let parser = Punctuated::<Meta, syn::Token![,]>::parse_terminated;
        let Ok(said) = attribute.parse_args_with(parser) else { return Some(attribute.clone()) };
        let neutral = |meta: &&Meta| !NEUTRAL.iter().any(|name| meta.path().is_ident(name));
        let kept: Vec<&Meta> = said.iter().filter(neutral).collect();
        (!kept.is_empty()).then(|| parse_quote!(#[rkyv(#(#kept),*)]))
    })
    .collect()
}

/// Returns the tokens after an argument's name: `= value`, `(..)` or nothing.
fn value_of(meta: &ParseNestedMeta<'_>) -> syn::Result<TokenStream> {
    if meta.input.peek(syn::Token![=]) {
        return meta.value()?.parse::<Type>().map(ToTokens::into_token_stream);
    }
    if meta.input.peek(syn::token::Paren) {
        let list;
        syn::parenthesized!(list in meta.input);
        return list.parse();
    }
    Ok(TokenStream::new())
}

/// A message is the same in all builds of a cluster, or its peers refuse it.
fn refuse_cfg(attributes: &[Attribute], what: &str, errors: &mut Errors) {
    if let Some(cfg) =
        attributes.iter().find(|a| a.path().is_ident("cfg") || a.path().is_ident("cfg_attr"))
    {
        errors.push(Error::new_spanned(
            cfg,
            format!(
                "a {what} of a message cannot be conditional: nodes built in different ways would \
                 not understand each other; put the condition on the whole message"
            ),
        ));
    }
}

/// Returns the text of tokens without white space, which differs between compiler versions.
fn squeezed(tokens: &impl ToTokens) -> String {
    tokens.to_token_stream().to_string().split_whitespace().collect()
}
