//! Filters against the interpreter, and the interpreter against values.
#![cfg(test)]

mod dice;
mod frames;
mod expressions;
mod kernels;
mod properties;
mod compiled;
mod damage;
