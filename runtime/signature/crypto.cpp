// SPDX-License-Identifier: Apache-2.0
#include "runtime/signature/crypto.h"

#include <type_traits>

#include <dlfcn.h>

#include "runtime/format_error.h"

namespace sinter::signature {
namespace {

/// The libcrypto loaded with this library (a wheel ships its own); otherwise the system's.
void* open_crypto() {
  const auto has_it = [](void* handle) {
    return handle != nullptr && dlsym(handle, "EVP_PKEY_new_raw_public_key") != nullptr;
  };
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&Crypto::get), &own) != 0 && own.dli_fname != nullptr)
    if (void* const handle = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD); has_it(handle))
      return handle;
  if (void* const handle = dlopen(nullptr, RTLD_LAZY); has_it(handle)) return handle;
  if (void* const handle = dlopen("libcrypto.so.3", RTLD_LAZY | RTLD_LOCAL); has_it(handle))
    return handle;
  throw unsupported_error(
      "signatures need OpenSSL's libcrypto.so.3, which is not found: install it (Debian: "
      "apt-get install libssl3), or leave the signature out");
}

Crypto load() {
  void* const handle = open_crypto();
  Crypto found{};
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr)
      throw unsupported_error("libcrypto has no {}: it is not OpenSSL 3", name);
  };
  find(found.new_raw_private_key, "EVP_PKEY_new_raw_private_key");
  find(found.new_raw_public_key, "EVP_PKEY_new_raw_public_key");
  find(found.get_raw_public_key, "EVP_PKEY_get_raw_public_key");
  find(found.free_key, "EVP_PKEY_free");
  find(found.new_context, "EVP_MD_CTX_new");
  find(found.free_context, "EVP_MD_CTX_free");
  find(found.sign_init, "EVP_DigestSignInit");
  find(found.sign, "EVP_DigestSign");
  find(found.verify_init, "EVP_DigestVerifyInit");
  find(found.verify, "EVP_DigestVerify");
  find(found.random_bytes, "RAND_bytes");
  return found;
}

}  // namespace

const Crypto& Crypto::get() {
  static const Crypto loaded = load();
  return loaded;
}

}  // namespace sinter::signature
