//! The versions of a message that gained fields. For each earlier version this generates a hidden
//! type with the fields of that version. Through this type the message is archived and read in that
//! version.
//!
//! In a struct with named fields, each field that was added later has `since = N`. The fields of a
//! version are the first ones of the list. From the first version that gained a field on, each
//! version gained at least one, so the version determines the fields. A version without gained
//! fields is a change of meaning; it cannot lie between two versions that understand each other.

use super::Message;
use super::layout::{self, Layout};
use crate::attr::MessageOptions;
use crate::errors::Errors;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Data, DeriveInput, Error, Field, Fields};

/// Maximum number of versions in which a message can be written and read. A node tells its peers
/// the layouts of all of them.
const VERSIONS_MAX: usize = 16;

/// The versions in which a message is written and read.
#[derive(Default)]
pub(super) struct Versions {
    /// The newest version.
    pub(super) version: u64,
    /// The earlier versions, newest first, each with the number of its fields.
    earlier: Vec<(u64, usize)>,
}

impl Versions {
    /// Reads the versions from the fields.
    pub(super) fn of(
        options: &MessageOptions,
        item: &DeriveInput,
        layout: &Layout,
        errors: &mut Errors,
    ) -> Self {
        let gained = || layout.fields.iter().filter_map(|field| field.since);
        let last = gained().map(|(since, _)| since).max();
        let version = options.version.map_or(last.unwrap_or(1), |(version, _)| version);
        let mut versions = Versions { version, earlier: Vec::new() };
        let Some((_, at)) = gained().next() else { return versions };
        if let Err(error) = can_gain(options, item, layout, at) {
            errors.push(error);
        } else if errors.keep(check_order(layout, version)).is_some()
            && let Some(earlier) = errors.keep(earlier(options, layout, version))
        {
            versions.earlier = earlier;
        }
        versions
    }
}

/// Refuses kinds of messages that cannot gain fields.
fn can_gain(
    options: &MessageOptions,
    item: &DeriveInput,
    layout: &Layout,
    at: Span,
) -> syn::Result<()> {
    let is_named =
        matches!(&item.data, Data::Struct(data) if matches!(data.fields, Fields::Named(_)));
    let why = if !is_named {
        "only a struct with named fields can gain fields: an enum or a tuple that changes is \
         another message"
    } else if options.local {
        "a message that never leaves its node meets no other version of itself: remove `since`"
    } else if !item.generics.params.is_empty() {
        "a generic message cannot gain fields"
    } else if layout.recursive {
        "a message that contains itself cannot gain fields: those inside would be of another \
         version"
    } else {
        return Ok(());
    };
    Err(Error::new(at, why))
}

/// Refuses fields that are not gained at the end.
fn check_order(layout: &Layout, version: u64) -> syn::Result<()> {
    let mut before = 1;
    for field in &layout.fields {
        let (since, at) = field.since.unwrap_or((1, field.at));
        let why = if field.since.is_some() && since == 1 {
            "version 1 is the first, and gained nothing: a field without `since` was there then"
                .to_owned()
        } else if since > version {
            format!("the message is of version {version}: say `version = {since}`")
        } else if since < before {
            format!("fields are gained at the end: one of version {before} is before this one")
        } else {
            before = since;
            continue;
        };
        return Err(Error::new(at, why));
    }
    Ok(())
}

/// Returns the versions before the newest, each with the number of its fields.
fn earlier(
    options: &MessageOptions,
    layout: &Layout,
    version: u64,
) -> syn::Result<Vec<(u64, usize)>> {
    let gains = layout.fields.iter().enumerate();
    let mut gains: Vec<(u64, usize)> =
        gains.filter_map(|(at, field)| Some((field.since?.0, at))).collect();
    gains.dedup_by_key(|(since, _)| *since);
    let at = options.version.map_or_else(Span::call_site, |(_, at)| at);
    let first = gains.first().map_or(version, |(since, _)| *since);
    if gains.len() as u64 != version - first + 1 {
        let missing =
            (first..=version).find(|number| gains.iter().all(|(since, _)| since != number));
        let missing = missing.unwrap_or(version);
        return Err(Error::new(
            at,
            format!(
                "version {missing} gained no field: its meaning changed, and no earlier version \
                 understands it; remove `since` of the fields gained before"
            ),
        ));
    }
    if gains.len() >= VERSIONS_MAX {
        let text = "a message is understood in 16 versions: remove `since` of the oldest fields";
        return Err(Error::new(at, text));
    }
    // A version has the fields before the first field that the next version gained.
    Ok(gains.into_iter().rev().map(|(since, fields)| (since - 1, fields)).collect())
}

impl Message {
    /// Returns the types of the earlier versions, if there are any, and the members of the `Schema`
    /// impl that use them.
    pub(super) fn earlier(&self) -> (Option<TokenStream>, TokenStream) {
        if self.versions.earlier.is_empty() {
            return (None, TokenStream::new());
        }
        let (private, message) = (self.private(), &self.item.ident);
        let forms = || self.versions.earlier.iter().map(|(version, _)| form(*version));
        let types = self
            .versions
            .earlier
            .iter()
            .map(|(version, fields)| self.form(&form(*version), *fields));
        let layouts = self.versions.earlier.iter().map(|&earlier| {
            let form = form(earlier.0);
            let archived = quote!(<#form as #private::rkyv::with::ArchiveWith<#message>>::Archived);
            self.layout.expression(&self.options.root, self.at(), earlier, &archived)
        });
        let (write, read, places) = (forms(), forms(), 1u8..);
        let also = places.clone();
        let members = quote_spanned! {self.at()=>
            const LAYOUTS: &'static [u128] = &[Self::LAYOUT, #(#layouts),*];
            fn write_earlier(
                &self,
                form: u8,
                out: &mut #private::rkyv::util::AlignedVec<16>,
            ) -> ::core::result::Result<(), #private::rkyv::rancor::Error> {
                match form {
                    #(#places => #private::write_as::<Self, #write>(self, out),)*
                    _ => ::core::result::Result::Err(
                        <#private::rkyv::rancor::Error as #private::rkyv::rancor::Source>::new(
                            #private::no_such_form(form),
                        ),
                    ),
                }
            }
            fn read_earlier(
                form: u8,
                payload: &#private::Payload,
                node: &dyn ::core::any::Any,
            ) -> ::core::result::Result<Self, #private::InvalidArchive> {
                match form {
                    #(#also => #private::read_as::<Self, #read>(payload, node),)*
                    _ => ::core::result::Result::Err(#private::no_such_form(form)),
                }
            }
        };
        (Some(quote!(#(#types)*)), members)
    }

    /// Returns the type `form` of an earlier version, which has the first `count` fields, and its
    /// conversion to the message, which gives the other fields their defaults.
    fn form(&self, form: &Ident, count: usize) -> TokenStream {
        let (private, message) = (self.private(), &self.item.ident);
        let attributes = layout::archive_attributes(&self.item.attrs);
        let Data::Struct(data) = &self.item.data else { return TokenStream::new() };
        let mut kept: Vec<Field> = data.fields.iter().take(count).cloned().collect();
        layout::know_fields(kept.iter_mut(), &self.layout, &self.options.root);
        let earlier = Ident::new("earlier", Span::mixed_site());
        let values =
            data.fields.iter().zip(&self.layout.fields).enumerate().map(|(at, (field, said))| {
                let name = &field.ident;
                match &said.default {
                    _ if at < count => quote!(#name: #earlier.#name),
                    Some(default) => quote!(#name: #default),
                    None => quote!(#name: ::core::default::Default::default()),
                }
            });
        quote_spanned! {self.at()=>
            #[derive(#private::rkyv::Archive)]
            #[derive(#private::rkyv::Serialize, #private::rkyv::Deserialize)]
            #[rkyv(crate = #private::rkyv, remote = #message)]
            #(#attributes)*
            struct #form { #(#kept),* }
            #[automatically_derived]
            impl ::core::convert::From<#form> for #message {
                fn from(#earlier: #form) -> Self {
                    #message { #(#values),* }
                }
            }
        }
    }
}

fn form(version: u64) -> Ident {
    format_ident!("__Version{version}", span = Span::mixed_site())
}
