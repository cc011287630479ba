//! Methods of a trait that call the same method of a field: wrappers around functions and
//! operators of DataFusion write only the methods that they change.
//!
//! A wrapper names each method it passes on. One that it does not name keeps the trait's default,
//! which for many methods is not the wrapped value's answer.

/// Defines methods that call the method of the same name of the field before the colon:
///
/// ```text
/// impl ScalarUDFImpl for Signed {
///     delegate! { inner:
///         fn name(&self) -> &str;
///         fn signature(&self) -> &Signature;
///     }
/// }
/// ```
macro_rules! delegate {
    ($field:tt:) => {};
    (
        $field:tt:
        fn $method:ident(&self $(, $argument:ident: $of:ty)* $(,)?) $(-> $result:ty)?;
        $($more:tt)*
    ) => {
        fn $method(&self $(, $argument: $of)*) $(-> $result)? {
            self.$field.$method($($argument),*)
        }
        delegate! { $field: $($more)* }
    };
    (
        $field:tt:
        fn $method:ident(&mut self $(, $argument:ident: $of:ty)* $(,)?) $(-> $result:ty)?;
        $($more:tt)*
    ) => {
        fn $method(&mut self $(, $argument: $of)*) $(-> $result)? {
            self.$field.$method($($argument),*)
        }
        delegate! { $field: $($more)* }
    };
}
