// SPDX-License-Identifier: Apache-2.0
// Structs of C++ as Python's dicts and classes, by their members' names.
#pragma once

#define SINTER_SCAN4(...) __VA_ARGS__
#define SINTER_SCAN3(...) SINTER_SCAN4(SINTER_SCAN4(SINTER_SCAN4(SINTER_SCAN4(__VA_ARGS__))))
#define SINTER_SCAN2(...) SINTER_SCAN3(SINTER_SCAN3(SINTER_SCAN3(SINTER_SCAN3(__VA_ARGS__))))
#define SINTER_SCAN1(...) SINTER_SCAN2(SINTER_SCAN2(SINTER_SCAN2(SINTER_SCAN2(__VA_ARGS__))))
#define SINTER_PARENTHESES ()
#define SINTER_AGAIN() SINTER_NEXT
#define SINTER_NEXT(apply, of, member, ...) \
  apply(of, member) __VA_OPT__(SINTER_AGAIN SINTER_PARENTHESES(apply, of, __VA_ARGS__))
/// Expands to apply(of, a) apply(of, b) ... for up to 80 members.
#define SINTER_EACH(apply, of, ...) SINTER_SCAN1(SINTER_NEXT(apply, of, __VA_ARGS__))

/// Stores members of `value` in the dict `d`.
#define SINTER_ITEMS(value, ...) SINTER_EACH(SINTER_ITEM, value, __VA_ARGS__)
#define SINTER_ITEM(value, member) d[#member] = value.member;

/// Defines a Python class in `module` with default construction and read-write members.
#define SINTER_CLASS(type, ...) \
  nb::class_<type>(module, #type).def(nb::init<>()) SINTER_EACH(SINTER_MEMBER, type, __VA_ARGS__)
#define SINTER_MEMBER(type, member) .def_rw(#member, &type::member)
