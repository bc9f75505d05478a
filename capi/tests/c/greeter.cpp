// A server that reads a greeting of its client and answers it.
#include "rdmacomm.hpp"

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    auto server = new RdmaCommunicator(argv[1], argv[2]);
    server->Serve();
    std::cout << "serving" << std::endl;
    auto client = const_cast<Communicator *>(server->Accept());

    char *heard = static_cast<char *>(calloc(32, sizeof(char)));
    client->Read(heard, 32);
    std::cout << heard << std::endl;
    const char *answer = "good evening";
    client->Write(answer, strlen(answer));
    client->Close();

    free(heard);
    delete client;
    delete server;
    return 0;
}
