//! One `#[handler]` method: the meaning of its parameters, and its `Handler` impl.

use super::generated::{Field, GeneratedMessage, HandlerParts};
use super::owner::HandlerOwner;
use crate::attr::{FieldOptions, HandlerOptions};
use crate::errors::Errors;
use crate::message::check_field;
use crate::names;
use crate::spans::at;
use crate::types::{fix_width, impl_trait_in, is_context, reply_to_of, view_of, without_self};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, Ident, ImplItemFn, Pat, PatType, Path, Result, ReturnType, Signature,
    Type, Visibility, parse_quote,
};

/// A parsed handler method.
pub(super) struct Method {
    pub(super) ident: Ident,
    pub(super) vis: Visibility,
    /// `doc`, `deprecated` and `cfg`, which the items generated for the handler get, too.
    pub(super) attributes: Vec<Attribute>,
    pub(super) takes: HandlerMessage,
    pub(super) boxed: bool,
    /// It takes a `ReplyTo` and answers through it.
    pub(super) delegates: bool,
    /// The protocol whose method it handles.
    pub(super) protocol: Option<Path>,
    arguments: Vec<Argument>,
    reply: Type,
    /// A type of its signature was refused and replaced, so the method cannot be called.
    is_fixed: bool,
    pub(super) is_async: bool,
}

/// The message of a handler.
pub(super) enum HandlerMessage {
    /// A parameter is the message: `M` or `View<M>`.
    Whole(Box<Type>),
    /// The parameters are the fields of a generated message.
    Fields(Box<GeneratedMessage>),
}

/// One argument with which the method is called. A list of them has the method's order.
enum Argument {
    Context,
    ReplyTo,
    Message,
    Field(Ident),
}

impl Method {
    /// Parses a method, and moves the attributes of fields from their parameters to the fields.
    /// Returns `None`, with all errors in `all_errors`, if no handler can be made of it.
    pub(super) fn parse(
        function: &mut ImplItemFn,
        attribute: &Attribute,
        actor: &HandlerOwner,
        all_errors: &mut Errors,
    ) -> Option<Self> {
        let mut errors = Errors::default();
        let options = errors.keep(HandlerOptions::parse(attribute)).unwrap_or_default();
        errors.keep(names::check_method(&function.sig.ident));
        errors.keep(check_signature(&function.sig));
        let mut parameters = Parameters::parse(&mut function.sig, &options, actor, &mut errors);
        all_errors.keep(errors.into_result())?;
        let ident = function.sig.ident.clone();
        let attributes = shown(&function.attrs);
        let mut reply = match (&parameters.reply_to, &function.sig.output) {
            (Some(reply), _) => reply.clone(),
            (None, ReturnType::Default) => parse_quote!(()),
            (None, ReturnType::Type(_, ty)) => (**ty).clone(),
        };
        parameters.refused.keep(fix_width(&mut reply));
        let is_fixed = all_errors.keep(parameters.refused.into_result()).is_none();
        let takes = match (parameters.whole, &options.protocol) {
            (Some(input), _) => HandlerMessage::Whole(Box::new(input)),
            (None, Some(protocol)) => {
                let fields = parameters.fields;
                let theirs =
                    GeneratedMessage::of_protocol(protocol, &ident, fields, &options, actor);
                HandlerMessage::Fields(Box::new(theirs))
            }
            (None, None) => {
                let generated = GeneratedMessage::new(
                    &ident,
                    &reply,
                    parameters.fields,
                    &options,
                    actor,
                    all_errors,
                )?;
                HandlerMessage::Fields(Box::new(generated))
            }
        };
        // The protocol's type, so that a method with another return type is one error, where
        // generated code calls the method.
        let reply = match &takes {
            HandlerMessage::Fields(generated) => generated.reply().unwrap_or(reply),
            HandlerMessage::Whole(_) => reply,
        };
        Some(Method {
            ident,
            vis: function.vis.clone(),
            attributes,
            takes,
            boxed: options.boxed.is_some(),
            protocol: options.protocol,
            delegates: parameters.reply_to.is_some(),
            arguments: parameters.arguments,
            reply,
            is_fixed,
            is_async: function.sig.asyncness.is_some(),
        })
    }

    /// Returns the error if this method and an `earlier` one cannot both be handlers of one actor.
    /// Conditional methods never conflict, because their conditions may exclude each other.
    pub(super) fn conflict_with(&self, earlier: &Method) -> Option<Error> {
        if self.conditions().chain(earlier.conditions()).next().is_some() {
            return None;
        }
        match (&self.takes, &earlier.takes) {
            (HandlerMessage::Fields(this), HandlerMessage::Fields(other))
                if !this.is_own() || !other.is_own() =>
            {
                (this.ident == other.ident && self.protocol == earlier.protocol).then(|| {
                    Error::new(
                        self.ident.span(),
                        format!("another handler of this actor is called `{}` too", self.ident),
                    )
                })
            }
            (HandlerMessage::Fields(this), HandlerMessage::Fields(other))
                if this.ident == other.ident =>
            {
                Some(Error::new(
                    this.ident.span(),
                    format!(
                        "another handler of this actor generates a message called `{}` too: \
                         choose a name with `#[handler(name = ..)]`",
                        this.ident
                    ),
                ))
            }
            (HandlerMessage::Whole(input), HandlerMessage::Whole(_))
                if self.input().1 == earlier.input().1 =>
            {
                Some(Error::new_spanned(
                    input,
                    format!(
                        "`{}` takes this message already: an actor has one handler for a message, \
                         which takes it owned or as a `View`",
                        earlier.ident
                    ),
                ))
            }
            _ => None,
        }
    }

    /// Renames the message if it is generated for the handler, and returns false if it is not.
    pub(super) fn rename(&mut self) -> bool {
        match &mut self.takes {
            HandlerMessage::Fields(generated) if generated.is_own() => {
                generated.rename();
                true
            }
            HandlerMessage::Fields(_) | HandlerMessage::Whole(_) => false,
        }
    }

    /// Returns the type of the handler's parameter, `M` or `View<M>`, and the type of its message,
    /// `M`.
    pub(super) fn input(&self) -> (Type, Type) {
        match &self.takes {
            HandlerMessage::Whole(input) => {
                let input = Type::clone(input);
                let message = view_of(&input).unwrap_or_else(|| input.clone());
                (input, message)
            }
            HandlerMessage::Fields(generated) => (generated.ty(), generated.ty()),
        }
    }

    pub(super) fn conditions(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().filter(|a| a.path().is_ident("cfg"))
    }

    /// Returns the generated message, if any.
    pub(super) fn message(&self, actor: &HandlerOwner) -> Option<TokenStream> {
        let HandlerMessage::Fields(generated) = &self.takes else { return None };
        let Method { ident, vis, attributes, .. } = self;
        Some(generated.tokens(&HandlerParts { ident, vis, attributes }, actor))
    }

    /// Returns the aliases for its message and its index, if it belongs to a protocol.
    pub(super) fn place(&self) -> Option<TokenStream> {
        let HandlerMessage::Fields(generated) = &self.takes else { return None };
        generated.place(&self.conditions().collect::<Vec<_>>())
    }

    /// Returns the `Handler` impl.
    pub(super) fn tokens(&self, actor: &HandlerOwner) -> TokenStream {
        let at = match &self.takes {
            HandlerMessage::Whole(input) => at(input.span()),
            HandlerMessage::Fields(_) => at(self.ident.span()),
        };
        let (private, ty) = (actor.root.private(at), &actor.ty);
        let (params, _, clause) = actor.generics.split_for_impl();
        let (input, _) = self.input();
        let conditions = self.conditions();
        let reply = &self.reply;
        let reply_line = quote_spanned!(reply.span()=> type Reply = #reply;);
        let handle = self.handle(&private, &input);
        let form = self.form();
        quote_spanned! {at=>
            #(#conditions)*
            #[allow(deprecated, reason = "a deprecated handler is still served")]
            #[diagnostic::do_not_recommend]
            impl #params #private::#form<#input> for #ty #clause {
                #reply_line
                #handle
            }
        }
    }

    /// Returns the name of the trait that is implemented: `Delegate` if the method takes a
    /// `ReplyTo`, `Handler` otherwise.
    pub(super) fn form(&self) -> Ident {
        Ident::new(if self.delegates { "Delegate" } else { "Handler" }, at(self.ident.span()))
    }

    /// Returns `Handler::handle`, which calls the method. Its span is the method's name, so that an
    /// error about its future is reported there.
    fn handle(&self, private: &TokenStream, input: &Type) -> TokenStream {
        let (method, reply) = (&self.ident, &self.reply);
        let at = at(method.span());
        let [msg, cx, to] = ["msg", "cx", "__reply"].map(|name| Ident::new(name, at));
        let arguments = self.arguments.iter().map(|argument| match argument {
            Argument::Context => quote!(#cx),
            Argument::ReplyTo => quote!(#to),
            Argument::Message => quote!(#msg),
            Argument::Field(field) => quote!(#field),
        });
        let open = match &self.takes {
            HandlerMessage::Fields(generated) => Some(generated.taken_apart(&msg)),
            HandlerMessage::Whole(_) => None,
        };
        let wait = self.is_async.then(|| quote_spanned!(at=> .await));
        let call = match self.is_fixed {
            true => quote!(::core::unreachable!()),
            false => quote_spanned!(at=> self.#method(#(#arguments),*) #wait),
        };
        let (way_back, output) = if self.delegates {
            (Some(quote!(#to: #private::ReplyTo<#reply>,)), quote!(()))
        } else {
            (None, quote!(#reply))
        };
        quote_spanned! {at=>
            #[allow(unused_variables, reason = "not every handler looks at its context")]
            async fn handle(
                &mut self,
                #msg: #input,
                #way_back
                #cx: &mut #private::Context<Self>,
            ) -> #output {
                #open
                #call
            }
        }
    }
}

/// A method's parameters, sorted by their meaning.
#[derive(Default)]
pub(crate) struct Parameters {
    pub(crate) whole: Option<Type>,
    /// The `R` of a parameter `ReplyTo<R>`.
    reply_to: Option<Type>,
    pub(crate) fields: Vec<Field>,
    arguments: Vec<Argument>,
    /// Errors about types that were replaced, so that the expansion could continue.
    pub(crate) refused: Errors,
}

impl Parameters {
    pub(crate) fn parse(
        signature: &mut Signature,
        options: &HandlerOptions,
        actor: &HandlerOwner,
        errors: &mut Errors,
    ) -> Self {
        let mut parameters = Self::default();
        for argument in &mut signature.inputs {
            let FnArg::Typed(parameter) = argument else { continue };
            let added = parameters.add(parameter, options, actor);
            errors.keep(added);
        }
        if let (Some(_), ReturnType::Type(_, output)) = (&parameters.reply_to, &signature.output) {
            errors.push(Error::new_spanned(
                output,
                "a handler that takes a `ReplyTo` answers through it and returns nothing",
            ));
        }
        if let (Some(_), Some(field)) = (&parameters.whole, parameters.fields.first()) {
            errors.push(Error::new(
                field.ident.span(),
                "a handler takes either one message (`msg`, or a `View`) or the fields of a \
                 generated one, not both",
            ));
        }
        let concerns = match (&parameters.whole, &options.protocol) {
            (Some(_), _) => options.about_generated(),
            (None, Some(_)) => options.about_own(),
            (None, None) => None,
        };
        if let Some(argument) = concerns {
            errors.push(Error::new_spanned(
                argument,
                "this is for a generated message, but the handler takes one that exists: say it at \
                 that message",
            ));
        }
        parameters
    }

    /// Refuses, for a protocol's method, parameters that only a handler may have.
    pub(crate) fn check_for_protocol(&self, method: &Ident) -> Result<()> {
        let mut errors = Errors::default();
        let is_own = |one: &Argument| matches!(one, Argument::Context | Argument::ReplyTo);
        if self.arguments.iter().any(is_own) {
            errors.push(Error::new(
                method.span(),
                "a context or a `ReplyTo` is a parameter of the handler, not of the protocol",
            ));
        }
        if let Some(view) = self.whole.as_ref().filter(|whole| view_of(whole).is_some()) {
            errors.push(Error::new_spanned(
                view,
                "whether a message is read where it lies is its handler's affair: name it here \
                 without `View`",
            ));
        }
        errors.into_result()
    }

    fn add(
        &mut self,
        parameter: &mut PatType,
        options: &HandlerOptions,
        actor: &HandlerOwner,
    ) -> Result<()> {
        let conditional = parameter
            .attrs
            .iter()
            .find(|a| a.path().is_ident("cfg") || a.path().is_ident("cfg_attr"));
        if let Some(condition) = conditional {
            return Err(Error::new_spanned(
                condition,
                "a parameter of a handler cannot be conditional: put the condition on the whole \
                 handler",
            ));
        }
        if is_context(&parameter.ty) {
            if self.arguments.iter().any(|a| matches!(a, Argument::Context)) {
                return Err(Error::new_spanned(parameter, "a handler takes its context once"));
            }
            self.arguments.push(Argument::Context);
            return Ok(());
        }
        if let Some(reply) = reply_to_of(&parameter.ty) {
            if self.reply_to.is_some() {
                return Err(Error::new_spanned(parameter, "a handler answers one asker"));
            }
            self.reply_to = Some(without_self(&reply, &actor.ty));
            self.arguments.push(Argument::ReplyTo);
            return Ok(());
        }
        let ident = match &*parameter.pat {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => pat.ident.clone(),
            pat => {
                return Err(Error::new_spanned(
                    pat,
                    "a parameter of a handler becomes a field of its message: give it a name",
                ));
            }
        };
        if ident == "msg" || view_of(&parameter.ty).is_some() {
            if self.whole.is_some() {
                return Err(Error::new_spanned(parameter, "a handler takes one message"));
            }
            if let Type::Reference(_) | Type::ImplTrait(_) = &*parameter.ty {
                return Err(Error::new_spanned(
                    &parameter.ty,
                    "a handler takes a message `M` by value, or as a `View<M>`",
                ));
            }
            self.whole = Some(without_self(&parameter.ty, &actor.ty));
            self.arguments.push(Argument::Message);
            return Ok(());
        }
        check_field(&parameter.ty, options.local.is_some())?;
        self.arguments.push(Argument::Field(ident.clone()));
        let mut ty = without_self(&parameter.ty, &actor.ty);
        if options.local.is_none() && !FieldOptions::is_opaque(&parameter.attrs) {
            self.refused.keep(fix_width(&mut ty));
        }
        self.fields.push(Field::new(ident, ty, &mut parameter.attrs));
        Ok(())
    }
}

fn check_signature(signature: &Signature) -> Result<()> {
    let mut errors = Errors::default();
    if let Some(parameter) = signature.generics.params.first() {
        errors.push(Error::new_spanned(
            parameter,
            "a handler has no generic parameters of its own: put them on the actor or the message",
        ));
    }
    if let Some(word) = &signature.unsafety {
        errors.push(Error::new_spanned(
            word,
            "a handler is called by the runtime: it cannot be unsafe",
        ));
    }
    if let ReturnType::Type(_, output) = &signature.output
        && let Some(unnamed) = impl_trait_in(output)
    {
        errors.push(Error::new_spanned(
            unnamed,
            "the reply of a handler is a type with a name, so that it can be read where it \
             arrives: write the type itself",
        ));
    }
    match signature.receiver() {
        Some(me) if me.reference.is_some() && me.colon_token.is_none() => {}
        Some(me) => errors.push(Error::new_spanned(
            me,
            "the runtime keeps the actor: a handler takes `&self` or `&mut self`",
        )),
        None => errors
            .push(Error::new(signature.ident.span(), "a handler takes `&self` or `&mut self`")),
    }
    errors.into_result()
}

/// Returns the attributes that the items generated for a handler get, too.
pub(crate) fn shown(attributes: &[Attribute]) -> Vec<Attribute> {
    let shows =
        |a: &&Attribute| ["doc", "deprecated", "cfg"].iter().any(|name| a.path().is_ident(name));
    attributes.iter().filter(shows).cloned().collect()
}
