//! A browser cannot set headers on a WebSocket: it sends the token as one of the protocols that it offers.

use tokio_tungstenite::{
    connect_async,
    tungstenite::{Error, client::IntoClientRequest as _},
};

use crate::access::rig::{LIMIT, Server, token};

#[tokio::test]
async fn the_token_of_a_browser_is_an_offered_protocol() {
    let server = Server::start(&[]);
    server.register().await;
    let open = async |offered: Option<String>| {
        let url = server.address("http").replace("http://", "ws://") + "/si/v1/rm/rm-1/ws";
        let mut request = url.into_client_request().unwrap();
        if let Some(offered) = offered {
            request.headers_mut().insert("sec-websocket-protocol", offered.parse().unwrap());
        }
        tokio::time::timeout(LIMIT, connect_async(request)).await.expect("an answer")
    };
    let (_socket, response) = open(Some(format!("callboard, callboard.bearer.{}", token("shim")))).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "callboard", "the token is not sent back");
    for (offered, status) in [
        (None, 401),
        (Some("callboard".to_owned()), 401),
        (Some(format!("callboard, callboard.bearer.{}", token("unknown"))), 401),
        (Some(format!("callboard, callboard.bearer.{}", token("viewer"))), 403),
    ] {
        let Err(Error::Http(response)) = open(offered).await else { panic!("no answer") };
        assert_eq!(response.status().as_u16(), status);
    }
}
