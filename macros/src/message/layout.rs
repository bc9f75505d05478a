//! The layout fingerprint of a message, as tokens that the compiler evaluates.
//!
//! It covers the rkyv format, the version, names and order of fields and variants, the layouts of
//! the fields' types, discriminants, and the `#[rkyv(..)]` arguments that change the archive. It
//! does not cover the type's own name (which is its identity), derives, docs and bounds. The layout
//! of an earlier version is computed from the first parts of the same list.

use crate::attr::{CratePath, FieldLayout, FieldOptions};
use crate::errors::Errors;
use crate::spans;
use crate::types::{
    fix_width, is_phantom, is_standard, mentions, mentions_itself, refuse_wide_nonzero,
};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, Field, Fields, Meta, Type, parse_quote,
    parse_quote_spanned,
};

/// Arguments of `#[rkyv(..)]` that do not change the archive.
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

/// The parts of a message's layout.
#[derive(Default)]
pub(super) struct Layout {
    /// In order of declaration.
    parts: Vec<LayoutPart>,
    /// Field types that need a schema and depend on generic parameters.
    pub(super) checked: Vec<Type>,
    /// The message has rkyv's derives, so their attributes may be on it.
    has_archive: bool,
    /// The type of the message, with its generic arguments.
    message: Option<Type>,
    /// The names of its generic types and constants.
    parameters: Vec<Ident>,
    /// A field contains the message itself, as the macro sees or as `#[message(recursive)]` says.
    pub(super) recursive: bool,
    /// No schema describes a part of its archive: a field is opaque or recursive, or an attribute
    /// of rkyv changes the archive.
    is_undescribed: bool,
    /// Its fields, in order of declaration; an enum has the fields of all variants.
    pub(super) fields: Vec<VersionedField>,
    /// Errors about fields whose types were replaced, so that the expansion could continue.
    pub(super) refused: Errors,
}

/// The properties of a field that concern versions.
pub(super) struct VersionedField {
    pub(super) at: Span,
    pub(super) since: Option<(u64, Span)>,
    pub(super) default: Option<Expr>,
    /// The generated [check](Layout::check) looks for a schema of its type, and is the only code
    /// that reports an error about it.
    pub(super) is_known: bool,
    /// Number of layout parts before it.
    parts: usize,
}

enum LayoutPart {
    /// A name, an attribute or the text of a type.
    Text(String),
    /// The layout of a type.
    LayoutOf { ty: Type, is_known: bool },
    /// The size of a type's archive.
    SizeOf(Type),
}

impl Layout {
    /// Parses the fields, and removes our attributes from them. A `local` message has no archive.
    pub(super) fn take(
        item: &mut DeriveInput,
        local: bool,
        root: &CratePath,
        errors: &mut Errors,
    ) -> Self {
        let private = &root.private(spans::at(item.ident.span()));
        let mut layout = Layout { has_archive: !local, ..Layout::default() };
        refuse_conditional_rkyv(&item.attrs, errors);
        layout.attributes(&item.attrs);
        let (ident, (_, args, _)) = (&item.ident, item.generics.split_for_impl());
        layout.message = Some(parse_quote!(#ident #args));
        let types = item.generics.type_params().map(|parameter| &parameter.ident);
        let constants = item.generics.const_params().map(|parameter| &parameter.ident);
        layout.parameters = types.chain(constants).cloned().collect();
        let ident = item.ident.clone();
        match &mut item.data {
            Data::Struct(data) => layout.fields(&mut data.fields, &ident, private, errors),
            Data::Enum(data) => {
                for variant in &mut data.variants {
                    refuse_cfg(&variant.attrs, "variant", errors);
                    layout.text("variant");
                    layout.text(variant.ident.unraw());
                    if let Some((_, discriminant)) = &variant.discriminant {
                        layout.text(squeezed(discriminant));
                    }
                    layout.attributes(&variant.attrs);
                    layout.fields(&mut variant.fields, &ident, private, errors);
                }
            }
            Data::Union(data) => {
                errors.push(Error::new_spanned(data.union_token, "a union cannot be a message"));
            }
        }
        layout
    }

    /// Returns an expression of type `u128`: the layout of a version with the first `fields` fields
    /// and an archive of type `archived`.
    pub(super) fn expression(
        &self,
        root: &CratePath,
        at: Span,
        (version, fields): (u64, usize),
        archived: &TokenStream,
    ) -> TokenStream {
        let private = root.private(at);
        let hash = Ident::new("hash", Span::mixed_site());
        let parts = self.fields.get(fields).map_or(self.parts.len(), |field| field.parts);
        let steps = self.parts[..parts].iter().map(|part| match part {
            LayoutPart::Text(text) => quote!(let #hash = #hash.str(#text);),
            LayoutPart::LayoutOf { ty, .. } => {
                let at = spans::at(ty.span());
                let private = root.private(at);
                let layout = quote_spanned!(at=> <#ty as #private::Schema>::LAYOUT);
                quote!(let #hash = #hash.num(#layout);)
            }
            LayoutPart::SizeOf(ty) => quote! {
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

    /// Returns an expression of type `bool`: true if the message's archive may be read where it
    /// arrived.
    pub(super) fn in_place(&self, root: &CratePath) -> TokenStream {
        if self.is_undescribed {
            return quote!(false);
        }
        let fields = self.parts.iter().filter_map(|part| {
            let LayoutPart::LayoutOf { ty, .. } = part else { return None };
            let at = spans::at(ty.span());
            let private = root.private(at);
            Some(quote_spanned!(at=> && <#ty as #private::Schema>::IN_PLACE))
        });
        quote!(true #(#fields)*)
    }

    /// Returns a type that is the field's type `ty`, but exists only if all fields of the message
    /// have schemas.
    fn known(&self, ty: &Type, root: &CratePath) -> Type {
        let (at, message) = (spans::at(ty.span()), &self.message);
        let private = root.private(at);
        parse_quote_spanned! {at=>
            <#ty as #private::When<<#message as #private::Fields>::Checked>>::Itself
        }
    }

    /// Returns the check that the fields have schemas. It is the only one, so that an error is
    /// reported once.
    pub(super) fn check(&self, item: &DeriveInput, root: &CratePath) -> TokenStream {
        let at = spans::at(item.ident.span());
        let private = root.private(at);
        let (ident, (params, args, clause)) = (&item.ident, item.generics.split_for_impl());
        let checks: Vec<_> = self
            .parts
            .iter()
            .filter_map(|part| {
                let LayoutPart::LayoutOf { ty, is_known: true } = part else { return None };
                let at = spans::at(ty.span());
                let private = root.private(at);
                Some(quote_spanned!(at=> let _ = <#ty as #private::Schema>::write_earlier;))
            })
            .collect();
        if checks.is_empty() {
            return TokenStream::new();
        }
        quote_spanned! {at=>
            #[automatically_derived]
            impl #params #private::Fields for #ident #args #clause {
                type Checked = #private::Checked<{ #(#checks)* 0 }>;
            }
        }
    }

    fn text(&mut self, text: impl ToString) {
        self.parts.push(LayoutPart::Text(text.to_string()));
    }

    fn fields(
        &mut self,
        fields: &mut Fields,
        message: &Ident,
        private: &TokenStream,
        errors: &mut Errors,
    ) {
        for (index, field) in fields.iter_mut().enumerate() {
            refuse_cfg(&field.attrs, "field", errors);
            let parts = self.parts.len();
            match &field.ident {
                Some(name) => self.text(name.unraw()),
                None => self.text(index),
            }
            if let Some(said) = errors.keep(FieldOptions::take(&mut field.attrs)) {
                let FieldOptions { layout, since, default } = said;
                let at = field.span();
                let is_known = self.field(field, layout, message, private);
                self.fields.push(VersionedField { at, since, default, is_known, parts });
            }
        }
    }

    /// Adds a field. Returns true if its type must be checked for a schema: it is not a standard
    /// type, and depends on no generic parameters.
    fn field(
        &mut self,
        field: &mut Field,
        said: FieldLayout,
        message: &Ident,
        private: &TokenStream,
    ) -> bool {
        let replaced = self.attributes(&field.attrs);
        if self.has_archive && said != FieldLayout::Opaque {
            self.refused.keep(fix_width(&mut field.ty));
        } else if self.has_archive && !replaced {
            self.refused.keep(refuse_wide_nonzero(&field.ty));
        }
        let ty = field.ty.clone();
        let of_parameters = self.parameters.iter().any(|parameter| mentions(&ty, parameter));
        if said == FieldLayout::Checked && !replaced && of_parameters && is_phantom(&ty) {
            // Nothing of it crosses nodes, so its parameter needs no further bounds.
            self.text("PhantomData");
            if self.has_archive {
                field.attrs.push(parse_quote!(#[rkyv(with = #private::Phantom)]));
            }
            return false;
        }
        if said == FieldLayout::Recursive || mentions_itself(&ty, message) {
            self.recursive = true;
            self.is_undescribed = true;
            self.text(squeezed(&ty));
            if self.has_archive {
                field.attrs.push(parse_quote!(#[rkyv(omit_bounds)]));
            }
            if self.has_archive && !replaced {
                field.attrs.push(parse_quote!(#[rkyv(with = #private::DepthLimit)]));
            }
        } else if said == FieldLayout::Opaque {
            self.is_undescribed = true;
            self.text(squeezed(&ty));
            if !replaced {
                self.parts.push(LayoutPart::SizeOf(ty));
            }
        } else {
            let is_known = !of_parameters && !is_standard(&ty);
            self.parts.push(LayoutPart::LayoutOf { ty: ty.clone(), is_known });
            if of_parameters {
                self.checked.push(ty);
            }
            return is_known;
        }
        false
    }

    /// Adds the rkyv arguments that change the archive. Returns true if `with` is one of them: then
    /// the field's archive is not the archive of its type.
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
            self.is_undescribed |= !kept.is_empty();
            // If the arguments cannot be parsed, rkyv's derive reports an error, and says more
            // about it.
            match read {
                Ok(()) => self.parts.extend(kept.into_iter().map(LayoutPart::Text)),
                Err(_) => self.text(squeezed(attribute)),
            }
        }
        with
    }
}

/// Returns the item as rkyv's derives see it: only with their attributes, and with field types that
/// exist only if they have schemas. So the compiler reports a missing schema once, and not for all
/// code that the derives write.
pub(super) fn for_derives(item: &DeriveInput, layout: &Layout, root: &CratePath) -> DeriveInput {
    let mut item = item.clone();
    keep_rkyv(&mut item.attrs);
    match &mut item.data {
        Data::Struct(data) => know_fields(data.fields.iter_mut(), layout, root),
        Data::Enum(data) => {
            data.variants.iter_mut().for_each(|variant| keep_rkyv(&mut variant.attrs));
            know_fields(data.variants.iter_mut().flat_map(|one| &mut one.fields), layout, root);
        }
        Data::Union(_) => {}
    }
    item
}

/// Prepares fields for rkyv's derives: keeps only rkyv's attributes, and replaces types that are
/// checked for a schema.
pub(super) fn know_fields<'a>(
    fields: impl Iterator<Item = &'a mut Field>,
    layout: &Layout,
    root: &CratePath,
) {
    for (field, said) in fields.zip(&layout.fields) {
        keep_rkyv(&mut field.attrs);
        if said.is_known {
            field.ty = layout.known(&field.ty, root);
        }
    }
}

fn keep_rkyv(attributes: &mut Vec<Attribute>) {
    attributes.retain(|attribute| attribute.path().is_ident("rkyv"));
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

/// Returns the name of the type that rkyv's derive writes, or `None` if it is a type of the user's.
pub(super) fn archived_name(item: &DeriveInput) -> Option<Ident> {
    let mut name = Some(format_ident!("Archived{}", item.ident.unraw()));
    for attribute in item.attrs.iter().filter(|attribute| attribute.path().is_ident("rkyv")) {
        // The derive reports attributes that cannot be parsed.
        let _ = attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("archived") {
                name = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("as") {
                name = None;
            } else {
                value_of(&meta)?;
            }
            Ok(())
        });
    }
    name
}

/// Returns the attributes of rkyv that change the archive of their type.
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

/// Refuses conditional attributes of rkyv: the layout could not tell if the condition holds.
fn refuse_conditional_rkyv(attributes: &[Attribute], errors: &mut Errors) {
    let is_one = |attribute: &&Attribute| {
        let text = attribute.meta.to_token_stream().to_string();
        attribute.path().is_ident("cfg_attr") && text.contains("rkyv (")
    };
    if let Some(attribute) = attributes.iter().find(is_one) {
        errors.push(Error::new_spanned(
            attribute,
            "a message's archive cannot depend on a condition: write `#[rkyv(..)]` without \
             `cfg_attr`",
        ));
    }
}

/// Refuses conditional parts: a message must be the same in all builds of a cluster, or peers
/// refuse it.
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
