// SPDX-License-Identifier: Apache-2.0
// sinter sign, and verbs that require a signature: one clear error, exit code 5, whatever is wrong.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tools/serve/models/served_model.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

class SignTest : public CliTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(sinter({"compile", save(small_model()), "-o", path("plan"), "--target=cpu"}).code, 0);
    for (const char* name : {"own", "other"})
      ASSERT_EQ(sinter({"sign", "--new-key", path(name)}).code, 0);
  }
  CliResult run(const std::string& plan, const std::string& key) {
    return sinter({"run", path(plan), "--shapes=x:3x8", "--require-signature", key});
  }
  void expect_refused(const std::string& plan, const std::string& key, const char* why) {
    const CliResult result = run(plan, key);
    EXPECT_EQ(result.code, 5) << result.err;
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_THAT(result.err, HasSubstr("loading the plan '" + path(plan)));
  }
};

TEST_F(SignTest, APlanIsLoadedByItsMakersKeyAlone) {
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(path("own")).permissions() & perms::mask,
            perms::owner_read | perms::owner_write);
  expect_refused("plan", path("own.pub"), "has no signature");
  ASSERT_EQ(sinter({"sign", path("plan"), "--key", path("own"), "-o", path("signed")}).code, 0);
  expect_refused("plan", path("own.pub"), "has no signature");  // is as it was
  EXPECT_EQ(run("signed", path("own.pub")).code, 0);
  expect_refused("signed", path("other.pub"), "not by the key that is required");
  // Who requires none reads it as before; signing again takes the place of the signature.
  EXPECT_EQ(sinter({"inspect", path("signed")}).code, 0);
  ASSERT_EQ(sinter({"sign", path("signed"), "--key", path("other")}).code, 0);
  EXPECT_EQ(run("signed", path("other.pub")).code, 0);
  EXPECT_EQ(std::filesystem::file_size(path("signed")),
            std::filesystem::file_size(path("plan")) + 104);
  std::fstream file(path("signed"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-2000, std::ios::end);
  file.put('\x5a');
  file.close();
  expect_refused("signed", path("other.pub"), "signature");
}

TEST_F(SignTest, OtherVerbsRequireItToo) {
  const std::string key = path("own.pub");
  EXPECT_EQ(sinter({"bench", path("plan"), "--shapes=x:3x8", "--require-signature", key}).code, 5);
  EXPECT_EQ(sinter({"generate", path("plan"), "--ids", "1,2", "--max-tokens", "2", "--context", "8",
                    "--require-signature", key})
                .code,
            5);
  tools::ServedModelOptions served;
  served.plan = path("plan");
  served.load.require_signature = key;
  try {
    const tools::ServedModel model("model", served);
    ADD_FAILURE() << "it was served";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    EXPECT_THAT(error.what(), HasSubstr("has no signature"));
  }
}

TEST_F(SignTest, KeysThatAreNoneAreNamed) {
  EXPECT_THAT(run("plan", path("nothing")).err, HasSubstr("neither the PUBLIC KEY of Ed25519"));
  EXPECT_EQ(run("plan", path("own")).code, 2);  // a private key
  const CliResult own = sinter({"sign", path("plan"), "--key", path("own.pub")});
  EXPECT_EQ(own.code, 2);
  EXPECT_THAT(own.err, HasSubstr("no PRIVATE KEY of Ed25519"));
  EXPECT_EQ(sinter({"sign", path("plan")}).code, 2);
  EXPECT_EQ(sinter({"sign", path("own"), "--key", path("own")}).code, 5);  // no plan
}

}  // namespace
}  // namespace sinter::tests
