// SPDX-License-Identifier: Apache-2.0
// Signatures of plan files: Ed25519 (RFC 8032) over the whole file. README.md says what one means.
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

/// `text` is a key as OpenSSL writes it (PEM), the base64 of its 32 bytes, or the path of a file
/// with one of both. Throws Error(kUsage) naming what it is instead.
Key public_key(std::string_view text);
Key private_key(std::string_view text);

/// PEM, as `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` write it.
std::string public_pem(const Key& key);
std::string private_pem(const Key& key);

/// Throw Error(kUnsupported) where OpenSSL's libcrypto is not found.
Key public_of(const Key& secret);
Key new_private_key();
Signature sign(Bytes message, const Key& secret);
bool is_signed(Bytes message, const Signature& signature, const Key& key);

/// `file`, a plan's bytes, with a signature behind them, in the place of one that it has.
std::vector<std::byte> signed_plan(Bytes file, const Key& secret);
/// Throws Error(kInvalidPlan) unless `file` ends with a signature of all of it by `key`.
void require(Bytes file, const Key& key);

}  // namespace sinter::signature
