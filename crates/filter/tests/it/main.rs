//! Tests of filters against the interpreter, and of the interpreter against values.
#![cfg(test)]

mod random;
mod frames;
mod expressions;
mod kernels;
mod properties;
mod compiled;
mod damage;
