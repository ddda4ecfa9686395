// SPDX-License-Identifier: Apache-2.0
// Signatures of plan files: test vectors of RFC 8032, keys as OpenSSL writes them, and files of
// which any byte was changed.
#include "runtime/signature/signature.h"

#include <cstddef>
#include <cstring>
#include <fstream>

#include <gmock/gmock.h>
#include <sinter/error.h>
#include <sinter/plan.h>
#include <sinter/sinter_c.h>

#include "tests/runtime/plan/damaged_plan.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

template <typename Array>
Array array_of(const std::string& hex) {
  Array array;
  const auto bytes = from_hex(hex);
  EXPECT_EQ(bytes.size(), array.size());
  std::memcpy(array.data(), bytes.data(), array.size());
  return array;
}

struct Vector {
  const char *secret, *open, *message, *signature;
};
// RFC 8032, section 7.1: tests 1 to 3.
const Vector kVectors[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b"
     "46b"
     "d25bf5f0595bbe24655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11"
     "d8c"
     "387b2eaeb4302aeeb00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc"
     "659"
     "4a7c15e9716ed28dc027beceea1ec40a"}};

TEST(Signature, IsThatOfTheTestVectors) {
  for (const Vector& vector : kVectors) {
    const auto secret = array_of<signature::Key>(vector.secret);
    const auto open = array_of<signature::Key>(vector.open);
    const auto message = from_hex(vector.message);
    const auto expected = array_of<signature::Signature>(vector.signature);
    EXPECT_EQ(signature::public_of(secret), open);
    EXPECT_EQ(signature::sign(message, secret), expected);
    EXPECT_TRUE(signature::is_signed(message, expected, open));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      auto changed = expected;
      changed[i] ^= std::byte{1};
      EXPECT_FALSE(signature::is_signed(message, changed, open)) << i;
    }
    auto longer = message;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(signature::is_signed(longer, expected, open));
  }
}

TEST(Signature, KeysAreReadAsTheyAreWritten) {
  const auto secret = array_of<signature::Key>(kVectors[0].secret);
  const signature::Key open = signature::public_of(secret);
  EXPECT_EQ(signature::private_key(signature::private_pem(secret)), secret);
  EXPECT_EQ(signature::public_key(signature::public_pem(open)), open);
  // As `openssl pkey -pubout` writes the key of the first vector.
  constexpr const char* kBase64 = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
  EXPECT_EQ(signature::public_key(kBase64), open);
  EXPECT_EQ(signature::public_pem(open),
            "-----BEGIN PUBLIC KEY-----\n"
            "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
            "-----END PUBLIC KEY-----\n");
  const std::string path = ::testing::TempDir() + "/key.pub";
  std::ofstream(path) << signature::public_pem(open);
  EXPECT_EQ(signature::public_key(path), open);
  for (const std::string& wrong :
       {std::string("nothing"), std::string(), std::string(43, 'A'), std::string(88, 'A') + "=",
        signature::private_pem(secret), std::string("-----BEGIN PUBLIC KEY-----\nMCow\n"),
        ::testing::TempDir()}) {
    try {
      signature::public_key(wrong);
      ADD_FAILURE() << "it was taken: " << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
    }
  }
  EXPECT_NE(signature::new_private_key(), signature::new_private_key());
}

std::string refusal_of_signed(std::span<const std::byte> bytes, const std::string& key) {
  LoadOptions options;
  options.require_signature = key;
  try {
    Plan::from_memory(bytes, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(Signature, CoversEachByteOfAPlan) {
  const auto secret = array_of<signature::Key>(kVectors[1].secret);
  const std::string key = signature::public_pem(signature::public_of(secret));
  const Bytes plain = steps_of_all_kinds().bytes();
  EXPECT_THAT(refusal_of_signed(plain, key), HasSubstr("no signature"));
  const std::vector<std::byte> file = signature::signed_plan(plain, secret);
  EXPECT_EQ(refusal_of_signed(file, key), "accepted");
  EXPECT_EQ(Plan::from_memory(file).step_count(), Plan::from_memory(plain).step_count());
  EXPECT_EQ(signature::signed_plan(file, secret), file);  // takes the place of the one before
  for (std::size_t i = 0; i < file.size(); i += i + 4200 < file.size() && i > 4200 ? 13 : 1) {
    auto changed = file;
    changed[i] ^= std::byte{0x10};
    EXPECT_THAT(refusal_of_signed(changed, key), HasSubstr("signature")) << i;
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, plain.size(), file.size() - 1})
    EXPECT_THAT(refusal_of_signed(std::span(file).first(size), key), HasSubstr("signature"));
  auto longer = file;
  longer.push_back(std::byte{0});
  EXPECT_THAT(refusal_of_signed(longer, key), HasSubstr("no signature"));
  // Somebody else's, though the file names the key that is required.
  const auto other = array_of<signature::Key>(kVectors[2].secret);
  auto forged = signature::signed_plan(plain, other);
  EXPECT_THAT(refusal_of_signed(forged, key), HasSubstr("not by the key that is required"));
  std::memcpy(forged.data() + plain.size() + 8, file.data() + plain.size() + 8, 32);
  EXPECT_THAT(refusal_of_signed(forged, key), HasSubstr("has changed"));
}

TEST(Signature, IsRequiredInCToo) {
  const auto secret = array_of<signature::Key>(kVectors[1].secret);
  const std::string key = signature::public_pem(signature::public_of(secret));
  const std::string path = ::testing::TempDir() + "/signed.plan";
  const auto load = [&](std::span<const std::byte> bytes, std::size_t struct_size) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    sinter_load_options options = {};
    options.struct_size = struct_size;
    options.require_signature = key.c_str();
    sinter_plan* plan = nullptr;
    const sinter_status status = sinter_plan_load_with(path.c_str(), &options, &plan);
    sinter_plan_free(plan);
    return status;
  };
  const Bytes plain = steps_of_all_kinds().bytes();
  EXPECT_EQ(load(signature::signed_plan(plain, secret), sizeof(sinter_load_options)), SINTER_OK);
  EXPECT_EQ(load(plain, sizeof(sinter_load_options)), SINTER_ERROR_INVALID_PLAN);
  // A program of before does not know the member.
  EXPECT_EQ(load(plain, offsetof(sinter_load_options, require_signature)), SINTER_OK);
}

/// What a plan says of its own code is no proof: kernels are code.
TEST(Signature, CodeIsAllowedByItAlone) {
  PlanBuilder builder = steps_of_all_kinds();
  const auto secret = array_of<signature::Key>(kVectors[1].secret);
  LoadOptions options;
  options.allow_custom_code = false;
  EXPECT_NO_THROW(Plan::from_memory(builder.bytes(), options));  // data alone
  builder.meta.modules.push_back(std::make_unique<fb::ModuleT>());
  const Bytes with_kernels = builder.bytes();
  EXPECT_NO_THROW(Plan::from_memory(with_kernels));
  try {
    Plan::from_memory(with_kernels, options);
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    EXPECT_THAT(error.what(), HasSubstr("kernels"));
  }
  options.require_signature = signature::public_pem(signature::public_of(secret));
  EXPECT_NO_THROW(Plan::from_memory(signature::signed_plan(with_kernels, secret), options));
}

}  // namespace
}  // namespace sinter::testing
