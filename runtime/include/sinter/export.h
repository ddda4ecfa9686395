// SPDX-License-Identifier: Apache-2.0
// What the libraries show to programs that link them; everything else is hidden. C and C++.
#pragma once

#define SINTER_API __attribute__((visibility("default")))
