// A client that greets its server and reads the answer; then it does all that is wrong.
#include "rdmacomm.hpp"

template <typename Call> static void expect(const char *what, Call call) {
    try {
        call();
    } catch (const RdmaCommunicatorError &error) {
        if (std::string(error.what()).find(what) == std::string::npos)
            std::cout << "unexpected: " << error.what() << std::endl;
        return;
    }
    std::cout << "no exception: " << what << std::endl;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    auto server = new RdmaCommunicator(argv[1], atoi(argv[2]));
    expect("Read: it is not connected", [&] { server->Read(nullptr, 0); });
    server->Connect();
    const char *greeting = "good morning";
    server->Write(greeting, strlen(greeting));
    server->Sync();
    char *heard = static_cast<char *>(calloc(32, sizeof(char)));
    if (server->Read(heard, 32) != strlen(heard))
        return 3;
    std::cout << heard << std::endl;
    if (server->Read(heard, 32) != 0)
        return 4;

    expect("Connect: the communicator is in use", [&] { server->Connect(); });
    expect("Read: null was given", [&] { server->Read(nullptr, 8); });
    server->Close();
    server->Close();
    expect("Write: it is not connected, or was closed", [&] { server->Write("x", 1); });
    expect("Accept: call Serve first", [&] { server->Accept(); });
    expect("null", [&] { RdmaCommunicator(static_cast<const char *>(nullptr), 1); });
    expect("Serve: ", [&] { RdmaCommunicator("203.0.113.1", "7").Serve(); });
    expect("Serve: ", [&] { RdmaCommunicator("127.0.0.1", "no port").Serve(); });
    free(heard);
    delete server;
    return 0;
}
