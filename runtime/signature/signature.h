// SPDX-License-Identifier: Apache-2.0
// Signatures of plan files: Ed25519 (RFC 8032) over the whole file. README.md says what a signature
// guarantees.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::signature {

using Bytes = std::span<const std::byte>;
using Key = std::array<std::byte, 32>;  // public, or private (the seed)
using Signature = std::array<std::byte, 64>;

/// `text` is a key in OpenSSL's PEM, the base64 of its 32 bytes, or the path of a file with either.
/// Throws Error(kUsage) naming the problem.
Key public_key(std::string_view text);
Key private_key(std::string_view text);

/// PEM, as written by `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`.
std::string public_pem(const Key& key);
std::string private_pem(const Key& key);

/// These throw Error(kUnsupported) if OpenSSL's libcrypto is not found.
Key public_of(const Key& secret);
Key new_private_key();
Signature sign(Bytes message, const Key& secret);
bool is_signed(Bytes message, const Signature& signature, const Key& key);

/// The plan's bytes `file` followed by a signature, which replaces an existing one.
std::vector<std::byte> signed_plan(Bytes file, const Key& secret);
/// Throws Error(kInvalidPlan) unless `file` ends with a signature of all its bytes by `key`.
void require(Bytes file, const Key& key);

}  // namespace sinter::signature
