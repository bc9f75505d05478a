//! The message that a handler's parameters make.

use super::owner::Actor;
use crate::attr::HandlerOptions;
use crate::message::attribute;
use crate::names;
use crate::spans::at;
use crate::types::mentions;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    Attribute, Error, GenericParam, Generics, Ident, Path, Result, Type, Visibility, parse_quote,
};

/// A message with one field per parameter.
pub(super) struct Generated {
    pub(super) ident: Ident,
    /// The actor's parameters that the fields use.
    generics: Generics,
    fields: Vec<Field>,
    derives: Vec<Path>,
    local: bool,
}

/// What the message takes over from its handler.
pub(super) struct Handler<'a> {
    pub(super) ident: &'a Ident,
    pub(super) vis: &'a Visibility,
    pub(super) attributes: &'a [Attribute],
}

/// A parameter that is a field.
pub(super) struct Field {
    pub(super) ident: Ident,
    ty: Type,
    attributes: Vec<Attribute>,
}

impl Field {
    /// Takes the attributes that mean something on a field.
    pub(super) fn new(ident: Ident, ty: Type, attributes: &mut Vec<Attribute>) -> Self {
        let ours = |a: &mut Attribute| {
            ["doc", "rkyv", "message"].iter().any(|name| a.path().is_ident(name))
        };
        let attributes = attributes.extract_if(.., ours).collect();
        Field { ident, ty, attributes }
    }
}

impl Generated {
    pub(super) fn new(
        method: &Ident,
        reply: &Type,
        fields: Vec<Field>,
        options: &HandlerOptions,
        actor: &Actor,
    ) -> Result<Self> {
        let ident = match &options.name {
            Some(name) => name.clone(),
            None => match names::camel_case(method) {
                name if name.is_empty() => {
                    return Err(Error::new(
                        method.span(),
                        "no name for a message can be made of this: choose one with \
                         `#[handler(name = ..)]`",
                    ));
                }
                name => Ident::new(&name, method.span()),
            },
        };
        names::check_message(&ident)?;
        if ident == actor.ident
            || mentions(reply, &ident)
            || fields.iter().any(|field| mentions(&field.ty, &ident))
        {
            return Err(Error::new(
                ident.span(),
                format!(
                    "this handler would generate a message called `{ident}`, a type it already \
                     uses: name the parameter `msg` to handle `{ident}` itself, or choose another \
                     name with `#[handler(name = ..)]`"
                ),
            ));
        }
        Ok(Generated {
            generics: used_generics(&actor.generics, &fields),
            ident,
            fields,
            derives: options.derives.clone(),
            local: options.local.is_some(),
        })
    }

    /// Returns the message as a type, with its arguments.
    pub(super) fn ty(&self) -> Type {
        let (ident, (_, args, _)) = (&self.ident, self.generics.split_for_impl());
        parse_quote!(#ident #args)
    }

    /// Takes a message apart, or makes one of variables called like its fields.
    pub(super) fn pattern(&self) -> TokenStream {
        let (ident, fields) = (&self.ident, self.names());
        if self.fields.is_empty() { quote!(#ident) } else { quote!(#ident { #(#fields),* }) }
    }

    /// `account: String, cents: u64`.
    pub(super) fn parameters(&self) -> TokenStream {
        let (names, types) = (self.names(), self.fields.iter().map(|field| &field.ty));
        quote!(#(#names: #types),*)
    }

    fn names(&self) -> impl Iterator<Item = &Ident> {
        self.fields.iter().map(|field| &field.ident)
    }

    /// Returns the struct, with the visibility and the documentation of its handler.
    pub(super) fn tokens(&self, method: &Handler<'_>, actor: &Actor) -> TokenStream {
        let (ident, generics, vis) = (&self.ident, &self.generics, method.vis);
        let clause = &self.generics.where_clause;
        // Not `deprecated`: rkyv's derives would warn about the very struct they are on.
        let attributes = method.attributes.iter().filter(|a| !a.path().is_ident("deprecated"));
        let message = attribute(&actor.root, self.local, at(method.ident.span()));
        let derives = &self.derives;
        let derive = (!derives.is_empty()).then(|| quote!(#[derive(#(#derives),*)]));
        let doc = format!("The message of [`{}`] for its handler `{}`.", actor.ident, method.ident);
        let body = if self.fields.is_empty() {
            quote!(#clause;)
        } else {
            let fields = self.fields.iter().map(|field| field.tokens(method));
            quote!(#clause { #(#fields),* })
        };
        quote_spanned! {at(ident.span())=>
            #(#attributes)*
            #[doc = ""]
            #[doc = #doc]
            #message
            #derive
            #[allow(dead_code, reason = "a message may be there for other nodes only")]
            #vis struct #ident #generics #body
        }
    }
}

impl Field {
    fn tokens(&self, method: &Handler<'_>) -> TokenStream {
        let Field { ident, ty, attributes } = self;
        let vis = method.vis;
        let doc = (!attributes.iter().any(|a| a.path().is_ident("doc"))).then(|| {
            let doc = format!("The argument `{ident}` of the handler `{}`.", method.ident);
            quote!(#[doc = #doc])
        });
        quote!(#doc #(#attributes)* #vis #ident: #ty)
    }
}

/// Returns the parameters of the actor that the fields use, with the bounds that speak of these
/// alone.
fn used_generics(actor: &Generics, fields: &[Field]) -> Generics {
    let name = |parameter: &GenericParam| match parameter {
        GenericParam::Type(parameter) => Some(parameter.ident.clone()),
        GenericParam::Const(parameter) => Some(parameter.ident.clone()),
        GenericParam::Lifetime(_) => None,
    };
    let is_used = |parameter: &GenericParam| {
        name(parameter).is_some_and(|name| fields.iter().any(|field| mentions(&field.ty, &name)))
    };
    let (used, unused): (Vec<GenericParam>, Vec<GenericParam>) =
        actor.params.iter().cloned().partition(is_used);
    let unused: Vec<Ident> = unused.iter().filter_map(name).collect();
    let mut generics = Generics { params: used.into_iter().collect(), ..Generics::default() };
    for parameter in generics.type_params_mut() {
        parameter.bounds = std::mem::take(&mut parameter.bounds)
            .into_iter()
            .filter(|bound| speaks_of_none(&quote!(#bound), &unused))
            .collect();
    }
    let used: Vec<Ident> = generics.params.iter().filter_map(name).collect();
    let predicates: Vec<_> = actor
        .where_clause
        .iter()
        .flat_map(|clause| &clause.predicates)
        .filter(|predicate| {
            let tokens = predicate.to_token_stream();
            speaks_of_none(&tokens, &unused) && !speaks_of_none(&tokens, &used)
        })
        .cloned()
        .collect();
    if !predicates.is_empty() {
        generics.make_where_clause().predicates.extend(predicates);
    }
    generics
}

/// Returns true if none of the names occurs among the tokens.
fn speaks_of_none(tokens: &TokenStream, names: &[Ident]) -> bool {
    tokens.clone().into_iter().all(|token| match token {
        proc_macro2::TokenTree::Ident(ident) => !names.contains(&ident),
        proc_macro2::TokenTree::Group(group) => speaks_of_none(&group.stream(), names),
        _ => true,
    })
}
