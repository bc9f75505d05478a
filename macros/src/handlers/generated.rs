//! The message that is generated from the parameters of a handler or of a protocol's method.

use super::owner::HandlerOwner;
use crate::attr::HandlerOptions;
use crate::errors::Errors;
use crate::message::attribute;
use crate::names;
use crate::spans::at;
use crate::types::mentions;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{
    Attribute, Error, GenericParam, Generics, Ident, Path, Type, Visibility, parse_quote,
    parse_quote_spanned,
};

/// A message with one field per parameter.
pub(crate) struct GeneratedMessage {
    pub(crate) ident: Ident,
    /// The actor's generic parameters that the fields use.
    generics: Generics,
    fields: Vec<Field>,
    derives: Vec<Path>,
    local: bool,
    /// The method of the protocol that declares the message; `None` if the message is generated
    /// here.
    of_protocol: Option<ProtocolMethod>,
}

/// A method of a protocol, as a handler refers to it. Its message is declared beside the protocol,
/// which also gives all other types.
pub(crate) struct ProtocolMethod {
    protocol: Path,
    /// Path of its message, and the alias for it in generated code. Generated code uses the alias,
    /// so a message that does not exist is reported once.
    message: (Path, Ident),
    /// The alias for the `MethodIndex` of the method in the protocol.
    place: Ident,
    /// The handler's own name, or `None` if the handler names its message with `name = ..`.
    name: Option<String>,
    private: TokenStream,
    /// The span of errors about the method.
    at: Span,
}

impl ProtocolMethod {
    fn new(protocol: &Path, method: &Ident, message: &Ident, actor: &HandlerOwner) -> Self {
        let at = at(method.span());
        let mut path = protocol.clone();
        path.segments.pop();
        path.segments.push(message.clone().into());
        ProtocolMethod {
            protocol: protocol.clone(),
            message: (path, format_ident!("__Message_of_{method}", span = at)),
            place: format_ident!("__Place_of_{method}", span = at),
            name: None,
            private: actor.root.private(at),
            at,
        }
    }

    /// Returns `<Protocol as Method<..>>` for this method.
    fn bound(&self) -> TokenStream {
        let ProtocolMethod { protocol, place, private, at, .. } = self;
        quote_spanned!(*at=> <#protocol as #private::Method<#place>>)
    }

    /// Returns the type of the parameter with the index `at` in the
    /// [sorted](GeneratedMessage::sorted) parameters.
    fn parameter(&self, at: Option<usize>) -> TokenStream {
        let ProtocolMethod { protocol, place, private, .. } = self;
        quote_spanned!(self.at=> <#protocol as #private::Parameter<#place, #at>>::Type)
    }
}

/// The parts of a handler that its message takes over.
pub(crate) struct HandlerParts<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) vis: &'a Visibility,
    pub(crate) attributes: &'a [Attribute],
}

/// A parameter that becomes a field of the message.
pub(crate) struct Field {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    attributes: Vec<Attribute>,
}

impl Field {
    /// Creates a field, and moves the parameter's attributes that mean something on a field to it.
    pub(crate) fn new(ident: Ident, ty: Type, attributes: &mut Vec<Attribute>) -> Self {
        let ours = |a: &mut Attribute| {
            ["doc", "rkyv", "message"].iter().any(|name| a.path().is_ident(name))
        };
        let attributes = attributes.extract_if(.., ours).collect();
        Field { ident, ty, attributes }
    }
}

impl GeneratedMessage {
    pub(crate) fn new(
        method: &Ident,
        reply: &Type,
        fields: Vec<Field>,
        options: &HandlerOptions,
        actor: &HandlerOwner,
        errors: &mut Errors,
    ) -> Option<Self> {
        let ident = match &options.name {
            Some(name) => name.clone(),
            None => match names::camel_case(method) {
                name if syn::parse_str::<Ident>(&name).is_err() => {
                    errors.push(Error::new(
                        method.span(),
                        "no name for a message can be made of this: choose one with \
                         `#[handler(name = ..)]`",
                    ));
                    return None;
                }
                name => Ident::new(&name, method.span()),
            },
        };
        let clash = errors.keep(names::check_message(&ident)).is_none();
        let is_used = ident == actor.ident
            || mentions(reply, &ident)
            || fields.iter().any(|field| mentions(&field.ty, &ident));
        if is_used && !clash {
            errors.push(Error::new(
                ident.span(),
                format!(
                    "this handler would generate a message called `{ident}`, a type it already \
                     uses: name the parameter `msg` to handle `{ident}` itself, or choose another \
                     name with `#[handler(name = ..)]`"
                ),
            ));
        }
        let mut generated = GeneratedMessage {
            generics: used_generics(&actor.generics, &fields),
            ident,
            fields,
            derives: options.derives.clone(),
            local: options.local.is_some(),
            of_protocol: None,
        };
        if is_used || clash {
            generated.rename();
        }
        Some(generated)
    }

    /// Returns the message of a protocol's method, which is declared beside the protocol.
    pub(crate) fn of_protocol(
        protocol: &Path,
        method: &Ident,
        fields: Vec<Field>,
        options: &HandlerOptions,
        actor: &HandlerOwner,
    ) -> Self {
        let name = || {
            // If this is no valid name, the protocol has no such message, and the handler gets that
            // error.
            let name = syn::parse_str(&names::camel_case(method));
            let mut name = name.unwrap_or_else(|_| method.clone());
            name.set_span(method.span());
            name
        };
        let ident = options.name.clone().unwrap_or_else(name);
        let mut theirs = ProtocolMethod::new(protocol, method, &ident, actor);
        theirs.name = options.name.is_none().then(|| method.unraw().to_string());
        GeneratedMessage {
            ident,
            generics: Generics::default(),
            fields,
            derives: Vec::new(),
            local: false,
            of_protocol: Some(theirs),
        }
    }

    /// Returns two aliases for a method of a protocol: one for its message, and one for its index
    /// in the protocol. The index is computed once, which also compares the names of the message
    /// and of the parameters, so that an error is reported once. Returns `None` if the message
    /// belongs to no protocol.
    pub(crate) fn place(&self, conditions: &[&Attribute]) -> Option<TokenStream> {
        let ProtocolMethod { protocol, message: (path, alias), place, name, private, at } =
            self.of_protocol.as_ref()?;
        let (message, parameters) = (self.ident.unraw().to_string(), self.parameter_names());
        let name = name.as_ref().unwrap_or(&message);
        Some(quote_spanned! {*at=>
            #(#conditions)*
            #[allow(non_camel_case_types, reason = "it is called as the method is")]
            type #alias = #path;
            #(#conditions)*
            #[allow(non_camel_case_types, reason = "it is called as the method is")]
            type #place = #private::MethodIndex<{
                #private::place::<#protocol, #alias>(#name, #message, #parameters)
            }>;
        })
    }

    /// Returns the sorted names of the parameters as one text, which must be the same for a handler
    /// and its protocol.
    pub(crate) fn parameter_names(&self) -> String {
        let names: Vec<_> =
            self.sorted().map(|field| format!("`{}`", field.ident.unraw())).collect();
        names.join(", ")
    }

    /// Returns the reply type that the protocol gives the method, or `None` if the message belongs
    /// to no protocol.
    pub(crate) fn reply(&self) -> Option<Type> {
        let method = self.of_protocol.as_ref()?;
        let bound = method.bound();
        Some(parse_quote_spanned!(method.at=> #bound::Reply))
    }

    /// Returns the parameters sorted by name, the order in which protocol and handler exchange
    /// them.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = &Field> {
        let mut fields: Vec<&Field> = self.fields.iter().collect();
        fields.sort_by_key(|field| field.ident.unraw().to_string());
        fields.into_iter()
    }

    /// Returns a tuple of variables with the names of the parameters, in the order of
    /// [`sorted`](Self::sorted).
    pub(crate) fn tuple(&self) -> TokenStream {
        let names = self.sorted().map(|field| &field.ident);
        quote!((#(#names,)*))
    }

    /// Returns true if the message is generated here, and false if the protocol of a handler
    /// declares it.
    pub(crate) fn is_own(&self) -> bool {
        self.of_protocol.is_none()
    }

    /// Renames a message whose name is refused: then only the handler has an error, and calls of it
    /// still compile.
    pub(crate) fn rename(&mut self) {
        self.ident = format_ident!("{}Message", self.ident);
    }

    /// Returns the message as a type, with its arguments.
    pub(crate) fn ty(&self) -> Type {
        if let Some(method) = &self.of_protocol {
            let alias = &method.message.1;
            return parse_quote!(#alias);
        }
        let (ident, (_, args, _)) = (&self.ident, self.generics.split_for_impl());
        parse_quote!(#ident #args)
    }

    /// Returns code that makes the message from variables with the names of its fields.
    pub(crate) fn value(&self) -> TokenStream {
        match (&self.of_protocol, self.tuple()) {
            (Some(method), tuple) => {
                let bound = method.bound();
                quote_spanned!(method.at=> #bound::make(#tuple))
            }
            (None, _) => self.pattern(),
        }
    }

    /// Returns code that takes the message in the variable `message` apart, and moves each field to
    /// a variable of its name.
    pub(crate) fn taken_apart(&self, message: &Ident) -> TokenStream {
        match (&self.of_protocol, self.tuple()) {
            (Some(method), tuple) => {
                let bound = method.bound();
                quote_spanned!(method.at=> let #tuple = #bound::open(#message);)
            }
            (None, _) => {
                let pattern = self.pattern();
                quote!(let #pattern = #message;)
            }
        }
    }

    /// Returns `Balance { account }`, which is both a pattern and an expression. For messages that
    /// are generated here.
    pub(crate) fn pattern(&self) -> TokenStream {
        let (ident, fields) = (&self.ident, self.names());
        if self.fields.is_empty() { quote!(#ident) } else { quote!(#ident { #(#fields),* }) }
    }

    /// Returns the parameters with their types: `account: String, cents: u64`. For a handler of a
    /// protocol's method, the types are the protocol's, so that a handler with other types is one
    /// error, where generated code calls it.
    pub(crate) fn parameters(&self) -> TokenStream {
        let types = self.fields.iter().map(|field| match &self.of_protocol {
            Some(method) => {
                let place = self.sorted().position(|one| one.ident == field.ident);
                method.parameter(place)
            }
            None => field.ty.to_token_stream(),
        });
        let names = self.names();
        quote!(#(#names: #types),*)
    }

    fn names(&self) -> impl Iterator<Item = &Ident> {
        self.fields.iter().map(|field| &field.ident)
    }

    /// Returns the struct, with the visibility and the documentation of its handler; nothing if a
    /// protocol declares it.
    pub(crate) fn tokens(&self, method: &HandlerParts<'_>, actor: &HandlerOwner) -> TokenStream {
        if !self.is_own() {
            return TokenStream::new();
        }
        let (ident, generics, vis) = (&self.ident, &self.generics, method.vis);
        let clause = &self.generics.where_clause;
        // Without `deprecated`: rkyv's derives would warn about the struct that they are on.
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
    fn tokens(&self, method: &HandlerParts<'_>) -> TokenStream {
        let Field { ident, ty, attributes } = self;
        let vis = method.vis;
        let doc = (!attributes.iter().any(|a| a.path().is_ident("doc"))).then(|| {
            let doc = format!("The argument `{ident}` of the handler `{}`.", method.ident);
            quote!(#[doc = #doc])
        });
        quote!(#doc #(#attributes)* #vis #ident: #ty)
    }
}

/// Returns the actor's parameters that the fields use, with the bounds that mention only these.
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
