// SPDX-License-Identifier: Apache-2.0
#include "runtime/signature/signature.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include <sinter/file_error.h>

#include "runtime/format_error.h"
#include "runtime/plan/file_header.h"
#include "runtime/signature/crypto.h"

namespace sinter::signature {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
// The DER prefix of a key's 32 bytes (RFC 8410).
constexpr unsigned char kPublicPrefix[] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                           0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
constexpr unsigned char kPrivatePrefix[] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                            0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  std::vector<std::byte> bytes;
  std::uint32_t bits = 0;
  int count = 0;
  std::size_t padding = 0, letters = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ') continue;
    ++letters;
    if (c == '=') {
      ++padding;
      continue;
    }
    const auto value = kAlphabet.find(c);
    if (value == std::string_view::npos || padding > 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<std::byte>(bits >> count));
  }
  if (padding > 2 || letters % 4 != 0 || count >= 6) return std::nullopt;
  return bytes;
}

std::string to_base64(Bytes bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group =
          group << 8 | (i + j < bytes.size() ? std::to_integer<std::uint32_t>(bytes[i + j]) : 0);
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j > bytes.size() ? '=' : kAlphabet[group >> (18 - 6 * j) & 63];
  }
  return text;
}

std::string pem(std::span<const unsigned char> prefix, const Key& key, std::string_view what) {
  std::vector<std::byte> der(prefix.size());
  std::memcpy(der.data(), prefix.data(), prefix.size());
  der.insert(der.end(), key.begin(), key.end());
  return fmt::format("-----BEGIN {0}-----\n{1}\n-----END {0}-----\n", what, to_base64(der));
}

/// The key that `text` spells out, if it is one.
std::optional<Key> key_of(std::string_view text, std::span<const unsigned char> prefix,
                          std::string_view what) {
  const std::string begin = fmt::format("-----BEGIN {}-----", what),
                    end = fmt::format("-----END {}-----", what);
  std::size_t skipped = 0;
  if (const auto first = text.find(begin); first != std::string_view::npos) {
    const auto last = text.find(end, first);
    if (last == std::string_view::npos) return std::nullopt;
    text = text.substr(first + begin.size(), last - first - begin.size());
    skipped = prefix.size();
  }
  const auto bytes = from_base64(text);
  Key key;
  if (!bytes || bytes->size() != skipped + key.size() ||
      std::memcmp(bytes->data(), prefix.data(), skipped) != 0)
    return std::nullopt;
  std::memcpy(key.data(), bytes->data() + skipped, key.size());
  return key;
}

Key read_key(std::string_view text, std::span<const unsigned char> prefix, std::string_view what) {
  if (const auto own = key_of(text, prefix, what)) return *own;
  constexpr std::size_t kMost = 1 << 16;
  const bool is_text = text.find('\n') != std::string_view::npos || text.size() > 4096;
  if (!is_text) {
    const std::string path(text);
    errno = 0;
    std::ifstream file{path, std::ios::binary};
    std::string content(kMost, '\0');
    if (!file.read(content.data(), static_cast<std::streamsize>(kMost)) && file.gcount() == 0)
      throw FileError(ErrorCode::kUsage,
                      fmt::format("'{}' is neither the {} of Ed25519 in base64 (44 characters) nor "
                                  "a file with one; `sinter sign --new-key FILE` makes a pair",
                                  path, what),
                      path, errno);
    content.resize(static_cast<std::size_t>(file.gcount()));
    if (const auto own = key_of(content, prefix, what)) return *own;
  }
  throw usage_error(
      "{} is no {} of Ed25519, as `sinter sign --new-key FILE` or `openssl genpkey -algorithm "
      "ed25519` makes them",
      is_text ? "the text" : fmt::format("'{}'", text), what);
}

constexpr std::string_view kPublic = "PUBLIC KEY", kPrivate = "PRIVATE KEY";

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

void require_done(bool done, const char* what) {
  if (!done) throw internal_error("libcrypto could not {}", what);
}

using Handle = std::unique_ptr<void, void (*)(void*)>;

Handle private_handle(const Crypto& crypto, const Key& secret) {
  Handle key(
      crypto.new_raw_private_key(Crypto::kEd25519, nullptr, raw(secret.data()), secret.size()),
      crypto.free_key);
  require_done(key != nullptr, "take the private key");
  return key;
}

/// The signature covers the plan and the trailer's fields before the signature.
constexpr std::size_t kSignedTrailer = offsetof(plan::SignatureTrailer, signature);

}  // namespace

Key public_key(std::string_view text) { return read_key(text, kPublicPrefix, kPublic); }
Key private_key(std::string_view text) { return read_key(text, kPrivatePrefix, kPrivate); }
std::string public_pem(const Key& key) { return pem(kPublicPrefix, key, kPublic); }
std::string private_pem(const Key& key) { return pem(kPrivatePrefix, key, kPrivate); }

Key public_of(const Key& secret) {
  const Crypto& crypto = Crypto::get();
  const Handle key = private_handle(crypto, secret);
  Key result;
  std::size_t size = result.size();
  require_done(
      crypto.get_raw_public_key(key.get(), raw(result.data()), &size) == 1 && size == result.size(),
      "find the public key");
  return result;
}

Key new_private_key() {
  Key key;
  require_done(Crypto::get().random_bytes(raw(key.data()), static_cast<int>(key.size())) == 1,
               "make random bytes");
  return key;
}

Signature sign(Bytes message, const Key& secret) {
  const Crypto& crypto = Crypto::get();
  const Handle key = private_handle(crypto, secret);
  const Handle context(crypto.new_context(), crypto.free_context);
  Signature result;
  std::size_t size = result.size();
  require_done(context != nullptr &&
                   crypto.sign_init(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
                   crypto.sign(context.get(), raw(result.data()), &size, raw(message.data()),
                               message.size()) == 1 &&
                   size == result.size(),
               "sign");
  return result;
}

bool is_signed(Bytes message, const Signature& signature, const Key& key) {
  const Crypto& crypto = Crypto::get();
  const Handle handle(
      crypto.new_raw_public_key(Crypto::kEd25519, nullptr, raw(key.data()), key.size()),
      crypto.free_key);
  const Handle context(crypto.new_context(), crypto.free_context);
  return handle != nullptr && context != nullptr &&
         crypto.verify_init(context.get(), nullptr, nullptr, nullptr, handle.get()) == 1 &&
         crypto.verify(context.get(), raw(signature.data()), signature.size(), raw(message.data()),
                       message.size()) == 1;
}

std::vector<std::byte> signed_plan(Bytes file, const Key& secret) {
  if (const auto* has = plan::trailer_of(file)) file = file.first(file.size() - sizeof *has);
  plan::SignatureTrailer trailer;
  const Key key = public_of(secret);
  std::memcpy(trailer.key.data(), key.data(), key.size());
  std::vector<std::byte> result(file.size() + sizeof trailer);
  std::memcpy(result.data(), file.data(), file.size());
  std::memcpy(result.data() + file.size(), &trailer, sizeof trailer);
  const Signature signature = sign(Bytes(result).first(file.size() + kSignedTrailer), secret);
  std::memcpy(result.data() + file.size() + kSignedTrailer, signature.data(), signature.size());
  return result;
}

void require(Bytes file, const Key& key) {
  const plan::SignatureTrailer* const trailer = plan::trailer_of(file);
  if (trailer == nullptr)
    throw invalid_plan_error(
        "the plan has no signature, and one is required: its maker signs it with `sinter sign PLAN "
        "--key FILE`");
  Signature signature;
  std::memcpy(signature.data(), trailer->signature.data(), signature.size());
  const bool is_own = std::memcmp(trailer->key.data(), key.data(), key.size()) == 0;
  const std::size_t covered = file.size() - sizeof *trailer + kSignedTrailer;
  if (is_own && is_signed(file.first(covered), signature, key)) return;
  throw invalid_plan_error(
      "the plan's signature is not by the key that is required{}: get the plan anew from its maker",
      is_own ? ", or the file has changed since" : "");
}

}  // namespace sinter::signature
