// SPDX-License-Identifier: Apache-2.0
// What slow, silent, greedy and leaving clients cost: their own connection.
#include <fmt/format.h>

#include "tests/tools/serve/http/http_fixture.h"

namespace sinter::tests {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(HttpTest, SlowClientsTakeNoThread) {
  limits_.workers = 2;
  begin();
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 300; ++i) {
    slow.push_back(std::make_unique<RawClient>(port_));
    slow.back()->send(i % 3 == 0 ? "" : i % 3 == 1 ? kGet : kPost + "Content-Length: 9\r\n\r\na");
  }
  EXPECT_EQ(body_of(ask(kPost + "Content-Length: 2\r\n" + kEnd + "ab")), "ab");
  EXPECT_TRUE(eventually([&] { return server_->figures().connections == 300; }));
}

TEST_F(HttpTest, CheapRoutesAreAnsweredWhileAllWorkersAreBusy) {
  limits_.workers = 2;
  limits_.queued = 4;
  begin();
  std::vector<std::unique_ptr<RawClient>> busy;
  for (int i = 0; i < 6; ++i) {  // two run, four wait
    busy.push_back(std::make_unique<RawClient>(port_));
    busy.back()->send("POST /wait HTTP/1.1\r\nHost: x\r\n" + kEmpty);
    EXPECT_TRUE(eventually([&] { return handled_ == std::min(i + 1, 2); }));
  }
  EXPECT_TRUE(eventually([&] { return server_->figures().answering == 6; }));
  EXPECT_THAT(statuses(ask(kGet + kEnd)), ElementsAre(200));
  EXPECT_THAT(statuses(ask(kPost + "Content-Length: 1\r\n" + kEnd + "a")), ElementsAre(429));
  EXPECT_EQ(refused(http::Refused::kBusy), 1U);
  gate_.open();
  for (const auto& client : busy) EXPECT_THAT(client->read("waited"), HasSubstr("waited"));
}

TEST_F(HttpTest, WhoWaitsForSomethingTakesNoWorker) {
  limits_.workers = 1;
  begin();
  std::vector<std::unique_ptr<RawClient>> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.push_back(std::make_unique<RawClient>(port_));
    waiting.back()->send(i % 2 == 0 ? "POST /later HTTP/1.1\r\nHost: x\r\n" + kEmpty
                                    : "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  EXPECT_TRUE(eventually([&] { return handled_ == 10 && sources_ == 10; }));
  EXPECT_EQ(body_of(ask(kPost + "Content-Length: 2\r\n" + kEnd + "ab")), "ab");
  gate_.open();
  for (std::size_t i = 0; i < waiting.size(); ++i)
    EXPECT_THAT(waiting[i]->read(i % 2 == 0 ? "later" : "4\r\ndone\r\n0\r\n\r\n"),
                HasSubstr(i % 2 == 0 ? "later" : "done"));
}

TEST_F(HttpTest, WhatDoesNotComeInTimeIsRefused) {
  limits_.header_time = limits_.body_time = limits_.idle_time = milliseconds(100);
  begin();
  EXPECT_THAT(statuses(ask(kGet)), ElementsAre(408));
  EXPECT_THAT(statuses(ask(kPost + "Content-Length: 9\r\n\r\na")), ElementsAre(408));
  EXPECT_THAT(statuses(ask(kPost + "Transfer-Encoding: chunked\r\n\r\n9\r\na")), ElementsAre(408));
  EXPECT_EQ(refused(http::Refused::kTimeout), 3U);
  EXPECT_EQ(ask(""), "");                                       // nothing was asked
  EXPECT_THAT(statuses(ask(kGet + "\r\n")), ElementsAre(200));  // and nothing more
}

TEST_F(HttpTest, ABodyThatComesSteadilyHasItsTime) {
  limits_.body_time = milliseconds(200);
  limits_.least_rate = 100;
  begin();
  const RawClient client(port_);
  client.send(kPost + "Content-Length: 100\r\n" + kEnd);
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(milliseconds(40));
    client.send("0123456789");
  }
  EXPECT_THAT(statuses(client.read()), ElementsAre(200));
}

TEST_F(HttpTest, ABodyThatStopsIsRefusedHoweverMuchHasCome) {
  limits_.body_time = milliseconds(200);
  begin();
  const RawClient client(port_);
  client.send(kPost + "Content-Length: 5000000\r\n" + kEnd + std::string(4'000'000, 'a'));
  EXPECT_THAT(statuses(client.read()), ElementsAre(408));
}

TEST_F(HttpTest, WhoReadsNothingIsBrokenOff) {
  limits_.write_time = milliseconds(200);
  limits_.least_rate = 10 << 20;
  begin();
  const RawClient client(port_);
  client.send("GET /endless HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return refused(http::Refused::kSlowReader) == 1; }));
  EXPECT_TRUE(eventually([&] { return sources_ == 0; }));
}

TEST_F(HttpTest, WhoFallsTooFarBehindIsBrokenOff) {
  begin();
  const RawClient client(port_);
  client.send("GET /endless HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return sources_ == 1; }));
  std::this_thread::sleep_for(milliseconds(100));  // it is being written
  EXPECT_EQ(server_->figures().connections, 1);
  gate_.open();
  EXPECT_TRUE(eventually([&] { return refused(http::Refused::kSlowReader) == 1; }));
  EXPECT_TRUE(eventually([&] { return sources_ == 0; }));
}

TEST_F(HttpTest, SilentStreamsSayThatTheyLive) {
  limits_.silence_time = milliseconds(50);
  begin();
  const RawClient client(port_);
  client.send("GET /stream HTTP/1.1\r\nHost: x\r\n" + kEnd);
  EXPECT_THAT(client.read("1\r\n:\r\n1\r\n:\r\n"), HasSubstr("1\r\n:\r\n"));
  gate_.open();
  EXPECT_THAT(client.read(), HasSubstr("4\r\ndone\r\n0\r\n\r\n"));
}

TEST_F(HttpTest, WhoIsRefusedHasItsAnswerThoughTheBodyEndsTooSoon) {
  begin();
  const RawClient client(port_);
  client.send("POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na");
  client.close_half();
  EXPECT_THAT(statuses(client.read()), testing::ElementsAre(404));
}

TEST_F(HttpTest, WhoClosesItsHalfHasItsAnswer) {
  limits_.probe_time = milliseconds(50);
  begin();
  for (const std::string& request : {"POST /wait HTTP/1.1\r\nHost: x\r\n" + kEmpty,
                                     "POST /later HTTP/1.1\r\nHost: x\r\n" + kEmpty,
                                     std::string("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"),
                                     kGet + "\r\n", kGet + "\r\n" + kGet + "\r\n"}) {
    const RawClient client(port_);
    client.send(request);
    client.close_half();
    std::this_thread::sleep_for(milliseconds(100));
    gate_.open();
    auto codes = statuses(client.read());
    std::erase(codes, 100);  // which it may throw away
    EXPECT_THAT(codes, testing::Each(200)) << request;
    EXPECT_EQ(codes.size(), request.find("GET", 5) == std::string::npos ? 1U : 2U);
  }
}

// A client that closes looks like one that closes its half, until it is sent something.
TEST_F(HttpTest, WhoLeavesIsNoticed) {
  limits_.probe_time = milliseconds(50);
  begin();
  for (const bool resets : {false, true})
    for (const std::string& request : {"POST /later HTTP/1.1\r\nHost: x\r\n" + kEmpty,
                                       std::string("GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")}) {
      const int before = handled_;
      RawClient client(port_);
      client.send(request);
      const bool is_stream = request.starts_with("GET");
      if (is_stream)
        client.read("tick");
      else
        EXPECT_TRUE(eventually([&] { return handled_ > before; }));
      client.close(resets);
      EXPECT_TRUE(eventually([&] { return server_->figures().connections == 0; }))
          << request << resets;
      EXPECT_TRUE(eventually([&] { return sources_ == 0; }));
    }
  EXPECT_EQ(server_->figures().answering, 0);
}

TEST_F(HttpTest, AnIdleConnectionMakesRoom) {
  limits_.connections = 4;
  limits_.keep_time = milliseconds(100);
  begin();
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 4; ++i) idle.push_back(std::make_unique<RawClient>(port_));
  EXPECT_TRUE(eventually([&] { return server_->figures().connections == 4; }));
  EXPECT_THAT(statuses(ask(kGet + kEnd)), ElementsAre(200));
  EXPECT_TRUE(idle[0]->is_closed());
  EXPECT_EQ(refused(http::Refused::kMadeRoom), 1U);
  idle[3]->send(kGet + kEnd);
  EXPECT_THAT(statuses(idle[3]->read()), ElementsAre(200));
}

TEST_F(HttpTest, WithoutRoomClientsHaveTheirTurns) {
  limits_.connections = 2;
  begin();
  std::vector<std::thread> clients;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      for (int k = 0; k < 5; ++k)
        answered += statuses(ask(kGet + kEnd)) == std::vector<int>{200} ? 1 : 0;
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 40);
}

TEST_F(HttpTest, BodiesOfAllHaveALimitTogether) {
  limits_.all_body_bytes = 100'000;
  begin();
  const RawClient first(port_), second(port_);
  const std::string head = kPost + "Content-Length: 90000\r\n" + kEnd, half(80'000, 'a');
  first.send(head + half);
  EXPECT_TRUE(eventually([&] { return server_->figures().requests == 1; }));
  std::this_thread::sleep_for(milliseconds(50));
  second.send(head + half);
  EXPECT_THAT(statuses(second.read()), ElementsAre(503));
  EXPECT_EQ(refused(http::Refused::kBodyMemory), 1U);
  first.send(std::string(10'000, 'a'));
  EXPECT_EQ(body_of(first.read()).size(), 90'000U);
  const RawClient third(port_);
  third.send(head + half + std::string(10'000, 'a'));
  EXPECT_EQ(body_of(third.read()).size(), 90'000U);
}

TEST_F(HttpTest, AnswersEndBeforeTheServerDoes) {
  begin();
  const RawClient waits(port_), idles(port_), stalls(port_);
  waits.send("POST /wait HTTP/1.1\r\nHost: x\r\n" + kEmpty);
  stalls.send(kGet);
  EXPECT_TRUE(eventually([&] { return handled_ == 1; }));
  server_->stop();
  EXPECT_TRUE(idles.is_closed());
  EXPECT_TRUE(stalls.is_closed());
  gate_.open();
  const std::string got = waits.read();
  EXPECT_THAT(statuses(got), ElementsAre(200));
  EXPECT_THAT(got, HasSubstr("Connection: close"));
  thread_.join();
}

TEST_F(HttpTest, AbortEndsWhatRuns) {
  begin();
  const RawClient streams(port_), endless(port_), later(port_);
  streams.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  endless.send("GET /endless HTTP/1.1\r\nHost: x\r\n\r\n");
  later.send("POST /later HTTP/1.1\r\nHost: x\r\n" + kEmpty);
  EXPECT_TRUE(eventually([&] { return handled_ == 1 && sources_ == 2; }));
  server_->abort();
  thread_.join();
  EXPECT_TRUE(streams.is_closed());
  EXPECT_TRUE(endless.is_closed());
  EXPECT_TRUE(later.is_closed());
}

}  // namespace
}  // namespace sinter::tests
