//! Inspects and rewrites the types (`syn::Type`) of the user's code.

use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Error, GenericArgument, Ident, Path, PathArguments, QSelf, Result, Type, TypePath,
    parse_quote_spanned,
};

/// Returns the type's own name: `Worker` for `pool::Worker<T>`.
pub(crate) fn name_of(ty: &Type) -> Result<&Ident> {
    match ty {
        Type::Path(TypePath { qself: None, path }) => path.segments.last().map(|last| &last.ident),
        _ => None,
    }
    .ok_or_else(|| Error::new_spanned(ty, "expected the name of an actor"))
}

/// Returns the `M` of `View<M>`, or `None` for any other type, even an alias of `View`.
pub(crate) fn view_of(ty: &Type) -> Option<Type> {
    argument_of(ty, "View")
}

/// Returns the `R` of `ReplyTo<R>`, or `None` for any other type.
pub(crate) fn reply_to_of(ty: &Type) -> Option<Type> {
    argument_of(ty, "ReplyTo")
}

/// Names of types that have a schema. They are compared as words: a user's type of the same name
/// has its own schema, or is refused where it is used.
const STANDARD: &[&str] = &[
    "BTreeMap", "BTreeSet", "Box", "Duration", "HashMap", "HashSet", "Option", "String", "Uuid",
    "Vec", "VecDeque", "bool", "char", "f32", "f64", "i128", "i16", "i32", "i64", "i8", "u128",
    "u16", "u32", "u64", "u8",
];

/// Types whose width depends on the machine, each with its replacement.
const MACHINE_WIDE: &[(&str, &str)] = &[
    ("usize", "u64"),
    ("isize", "i64"),
    ("NonZeroUsize", "NonZeroU64"),
    ("NonZeroIsize", "NonZeroI64"),
];

/// Types whose archive is made of the archives of their arguments.
const HOLDERS: &[&str] = &[
    "Arc",
    "BTreeMap",
    "BTreeSet",
    "Bound",
    "Box",
    "HashMap",
    "HashSet",
    "NonZero",
    "Option",
    "Range",
    "RangeFrom",
    "RangeInclusive",
    "RangeTo",
    "RangeToInclusive",
    "Result",
    "Vec",
    "VecDeque",
];

/// Returns true if the type is made of nothing but types that have a schema.
pub(crate) fn is_standard(ty: &Type) -> bool {
    let wanted = |path: &Path| {
        path.segments.last().is_none_or(|last| !STANDARD.contains(&last.ident.to_string().as_str()))
    };
    let mut search = PathSearch { found: false, wanted };
    search.visit_type_mut(&mut ty.clone());
    !search.found
}

/// Refuses a type for other nodes that contains types of machine-dependent width, and replaces each
/// of these by a type of fixed width. So the other code about the type still compiles, and one
/// build reports all such places. (Under another name, such a type has no schema.)
pub(crate) fn fix_width(ty: &mut Type) -> Result<()> {
    struct WidthFixer(Result<()>);
    impl VisitMut for WidthFixer {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            match ty {
                Type::Path(TypePath { path, .. }) => {
                    let Some(name) = path.segments.last().map(|last| last.ident.clone()) else {
                        return;
                    };
                    if HOLDERS.iter().any(|holder| name == holder) {
                        return visit_mut::visit_type_mut(self, ty);
                    }
                    let of_name = |wide: &&(&str, &str)| name == wide.0;
                    let Some((wide, fixed)) = MACHINE_WIDE.iter().find(of_name) else { return };
                    let text = format!(
                        "a message or reply for other nodes has no `{wide}`, which is as wide as \
                         its machine: use `{fixed}`"
                    );
                    let refused = Err(Error::new(name.span(), text));
                    self.0 = std::mem::replace(&mut self.0, Ok(())).and(refused);
                    let module = if fixed.starts_with('N') { "num" } else { "primitive" };
                    let [module, fixed] = [module, fixed].map(|one| Ident::new(one, name.span()));
                    *ty = parse_quote_spanned!(name.span()=> ::core::#module::#fixed);
                }
                // The type of its length is not archived.
                Type::Array(array) => self.visit_type_mut(&mut array.elem),
                Type::Tuple(_) | Type::Paren(_) | Type::Group(_) | Type::Slice(_) => {
                    visit_mut::visit_type_mut(self, ty);
                }
                _ => {}
            }
        }
    }
    let mut fixed = WidthFixer(Ok(()));
    fixed.visit_type_mut(ty);
    fixed.0
}

/// Refuses the type of an opaque field if it contains a number of machine-dependent width that is
/// never zero: its archive has 32 bits, and if they are zero, reading it back is undefined
/// behavior. Other numbers of such a width only lose bits, for which an opaque field is trusted.
pub(crate) fn refuse_wide_nonzero(ty: &Type) -> Result<()> {
    struct WideNonzeroFinder {
        is_nonzero: bool,
        refused: Result<()>,
    }
    impl VisitMut for WideNonzeroFinder {
        fn visit_type_path_mut(&mut self, ty: &mut TypePath) {
            let Some(name) = ty.path.segments.last().map(|last| last.ident.clone()) else { return };
            if name == "PhantomData" {
                // Its archive holds no number.
                return;
            }
            let of_name = |wide: &&(&str, &str)| name == wide.0;
            if let Some((wide, fixed)) = MACHINE_WIDE.iter().find(of_name)
                && (self.is_nonzero || wide.starts_with('N'))
            {
                let text = format!(
                    "an opaque field has no `{wide}` that is never zero: it is archived in 32 \
                     bits, and may be zero there: use `{fixed}`"
                );
                let refused = Err(Error::new(name.span(), text));
                self.refused = std::mem::replace(&mut self.refused, Ok(())).and(refused);
            }
            let around = std::mem::replace(&mut self.is_nonzero, name == "NonZero");
            visit_mut::visit_type_path_mut(self, ty);
            self.is_nonzero = around;
        }
    }
    let mut wide = WideNonzeroFinder { is_nonzero: false, refused: Ok(()) };
    wide.visit_type_mut(&mut ty.clone());
    wide.refused
}

/// Returns true if the type is `PhantomData<..>`.
pub(crate) fn is_phantom(ty: &Type) -> bool {
    argument_of(ty, "PhantomData").is_some()
}

fn argument_of(ty: &Type, name: &str) -> Option<Type> {
    let Type::Path(TypePath { path, .. }) = ty else { return None };
    let last = path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(message) => Some(message.clone()),
        _ => None,
    }
}

/// Returns true if the type is `&mut Context<..>` (or `&Context<..>`).
pub(crate) fn is_context(ty: &Type) -> bool {
    let Type::Reference(reference) = ty else { return false };
    name_of(&reference.elem).is_ok_and(|name| name == "Context")
}

/// Returns true if `name`, on its own or as the start of a path, occurs in the type.
pub(crate) fn mentions(ty: &Type, name: &Ident) -> bool {
    let wanted = |path: &Path| path.segments[0].ident == *name;
    let mut search = PathSearch { found: false, wanted };
    search.visit_type_mut(&mut ty.clone());
    search.found
}

/// Returns true if the type contains `name` without a path, or `Self`, like the type of a recursive
/// field.
pub(crate) fn mentions_itself(ty: &Type, name: &Ident) -> bool {
    let wanted = |path: &Path| {
        let first = &path.segments[0].ident;
        let plain = path.leading_colon.is_none() && path.segments.len() == 1;
        first == "Self" || (plain && first == name)
    };
    let mut search = PathSearch { found: false, wanted };
    search.visit_type_mut(&mut ty.clone());
    search.found
}

struct PathSearch<F> {
    found: bool,
    wanted: F,
}

impl<F: Fn(&Path) -> bool> VisitMut for PathSearch<F> {
    fn visit_path_mut(&mut self, path: &mut Path) {
        self.found |= (self.wanted)(path);
        visit_mut::visit_path_mut(self, path);
    }
}

/// Returns tokens as a user would write them.
pub(crate) fn text_of(tokens: &impl ToTokens) -> String {
    const SPACES: [(&str, &str); 12] = [
        (" :: ", "::"),
        (":: ", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" : ", ": "),
        (" ,", ","),
        (" ;", ";"),
        ("& ", "&"),
        ("( ", "("),
        (" )", ")"),
        ("[ ", "["),
    ];
    let text = tokens.to_token_stream().to_string();
    SPACES.iter().fold(text, |text, (spaced, close)| text.replace(spaced, close))
}

/// Returns the first reference inside of the type, if any.
pub(crate) fn borrow_in(ty: &Type) -> Option<Type> {
    first_in(ty, |ty| matches!(ty, Type::Reference(_)))
}

/// Returns the first `impl Trait` inside of the type, if any.
pub(crate) fn impl_trait_in(ty: &Type) -> Option<Type> {
    first_in(ty, |ty| matches!(ty, Type::ImplTrait(_)))
}

/// Returns the first type for which `wanted` returns true: `ty` itself, or a type inside of it.
fn first_in(ty: &Type, wanted: fn(&Type) -> bool) -> Option<Type> {
    struct FirstTypeFinder(Option<Type>, fn(&Type) -> bool);
    impl VisitMut for FirstTypeFinder {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if (self.1)(ty) {
                self.0 = self.0.take().or_else(|| Some(ty.clone()));
            } else {
                visit_mut::visit_type_mut(self, ty);
            }
        }
    }
    let mut first = FirstTypeFinder(None, wanted);
    first.visit_type_mut(&mut ty.clone());
    first.0
}

/// Replaces `Self` by `actor`, so that the type means the same outside of the actor's `impl` block.
pub(crate) fn without_self(ty: &Type, actor: &Type) -> Type {
    struct SelfReplacer<'a>(&'a Type);
    impl VisitMut for SelfReplacer<'_> {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            visit_mut::visit_type_mut(self, ty);
            let Type::Path(TypePath { qself: qself @ None, path }) = ty else { return };
            if path.segments[0].ident != "Self" {
                return;
            }
            if path.segments.len() == 1 {
                *ty = self.0.clone();
                return;
            }
            // `Self::Item` becomes `<Actor>::Item`.
            let rest = path.segments.iter().skip(1).cloned().collect();
            *path = Path { leading_colon: Some(Default::default()), segments: rest };
            *qself = Some(QSelf {
                lt_token: Default::default(),
                ty: Box::new(self.0.clone()),
                position: 0,
                as_token: None,
                gt_token: Default::default(),
            });
        }
    }
    let mut ty = ty.clone();
    SelfReplacer(actor).visit_type_mut(&mut ty);
    ty
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::format_ident;
    use syn::parse_quote;

    #[test]
    fn a_view_is_known_by_its_name() {
        assert_eq!(view_of(&parse_quote!(View<Deposit>)), Some(parse_quote!(Deposit)));
        assert_eq!(view_of(&parse_quote!(ringpost::View<a::B<u8>>)), Some(parse_quote!(a::B<u8>)));
        assert_eq!(view_of(&parse_quote!(Viewer<Deposit>)), None);
        assert_eq!(view_of(&parse_quote!(View)), None);
    }

    #[test]
    fn the_first_type_as_wide_as_its_machine_is_refused_and_all_are_replaced() {
        let fixed = |mut ty: Type| {
            let refused = fix_width(&mut ty).err().map(|error| error.to_string());
            (text_of(&ty), refused.map(|text| text.split('`').nth(1).unwrap().to_owned()))
        };
        let same = |ty: Type| assert_eq!(fixed(ty.clone()), (text_of(&ty), None));
        let wanted: Type = parse_quote!(
            HashMap<::core::primitive::i64, (Option<[::core::primitive::u64; 2]>,
                ::core::num::NonZeroU64)>
        );
        assert_eq!(
            fixed(parse_quote!(HashMap<isize, (Option<[usize; 2]>, std::num::NonZeroUsize)>)),
            (text_of(&wanted), Some("isize".to_owned()))
        );
        // Lengths may contain such types, and so may arguments of types that are not archived.
        same(parse_quote!(Vec<[u8; usize::MAX as usize - 1]>));
        same(parse_quote!(ActorRef<Ring<usize>>));
        same(parse_quote!(Local<usize>));
    }

    #[test]
    fn an_opaque_number_that_is_never_zero_is_not_as_wide_as_its_machine() {
        let said = |ty: Type| {
            let text = refuse_wide_nonzero(&ty).err().map(|error| error.to_string());
            text.map(|text| text.split('`').nth(1).unwrap().to_owned())
        };
        assert_eq!(
            said(parse_quote!(Vec<std::num::NonZeroUsize>)).as_deref(),
            Some("NonZeroUsize")
        );
        assert_eq!(said(parse_quote!(NonZeroIsize)).as_deref(), Some("NonZeroIsize"));
        assert_eq!(said(parse_quote!(Option<NonZero<usize>>)).as_deref(), Some("usize"));
        // Types without such a number cannot read one back.
        let allowed: [Type; 5] = [
            parse_quote!(usize),
            parse_quote!(NonZeroU64),
            parse_quote!((NonZero<u8>, usize)),
            parse_quote!(PhantomData<NonZeroUsize>),
            parse_quote!(Option<std::marker::PhantomData<(NonZeroIsize, NonZero<usize>)>>),
        ];
        assert!(allowed.into_iter().all(|ty| said(ty).is_none()));
    }

    #[test]
    fn a_recursive_field_names_its_own_type_without_a_path() {
        let tree = format_ident!("Tree");
        assert!(mentions_itself(&parse_quote!(Vec<Option<Box<Tree>>>), &tree));
        assert!(mentions_itself(&parse_quote!([Self; 2]), &tree));
        assert!(mentions_itself(&parse_quote!(Vec<Tree<T>>), &tree));
        assert!(!mentions_itself(&parse_quote!(Vec<other::Tree>), &tree));
        assert!(!mentions_itself(&parse_quote!(TreeMap), &tree));
    }

    #[test]
    fn self_becomes_the_actor() {
        let actor = parse_quote!(Worker<T>);
        let moved = without_self(&parse_quote!(Option<(ActorRef<Self>, Self::Item)>), &actor);
        let wanted: Type = parse_quote!(Option<(ActorRef<Worker<T>>, <Worker<T>>::Item)>);
        assert_eq!(moved.to_token_stream().to_string(), wanted.to_token_stream().to_string());
    }

    #[test]
    fn the_first_borrow_is_found_at_any_depth() {
        assert!(borrow_in(&parse_quote!(Option<Vec<&str>>)).is_some());
        assert!(borrow_in(&parse_quote!(Option<Vec<String>>)).is_none());
    }
}
