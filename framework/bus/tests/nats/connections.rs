//! Every way in, and what is said where there is none: identities, certificates, servers that are not there or too old.

use rehearsal_bus::nats::{Auth, ConnectSettings, Secret};

use crate::lab::{Folder, Lab, at, connect, program, refusal};

fn user(lab: &Lab, name: &str, password: &str) -> ConnectSettings {
    lab.settings().identified(Auth::User { name: name.to_owned(), password: Secret::new(password) })
}

#[tokio::test]
async fn nobody_there_is_said_with_the_address() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let said = refusal(&at(&format!("nats://ann:s3cr3t@127.0.0.1:{port}"))).await;
    assert!(said.starts_with(&format!("nats://127.0.0.1:{port}: no NATS server answers: ")), "{said}");
    assert!(said.contains("Connection refused"), "{said}");
}

#[tokio::test]
async fn a_password_opens_and_a_wrong_one_is_named_without_itself() {
    let config = "authorization { users: [{user: ann, password: \"p@ss:w/ord\"}] }";
    let Some(lab) = Lab::start(Folder::new(), config) else { return };
    connect(&user(&lab, "ann", "p@ss:w/ord")).await;
    connect(&at(&format!("nats://ann:p%40ss:w%2Ford@{}", lab.place()))).await;
    let said = refusal(&user(&lab, "ann", "s3cr3t")).await;
    assert!(said.ends_with("the NATS server does not accept user `ann` with this password"), "{said}");
    let said = refusal(&lab.settings()).await;
    assert!(said.contains("wants to know who connects; give --nats-user"), "{said}");
}

#[tokio::test]
async fn a_token_opens_and_a_wrong_one_is_refused() {
    let Some(lab) = Lab::start(Folder::new(), "authorization { token: \"t0ken\" }") else { return };
    connect(&lab.settings().identified(Auth::Token(Secret::new("t0ken")))).await;
    let said = refusal(&at(&format!("nats://s3cr3t@{}", lab.place()))).await;
    assert!(said.ends_with("the NATS server does not accept this token"), "{said}");
}

#[tokio::test]
async fn one_of_several_servers_is_enough() {
    let Some(lab) = Lab::start(Folder::new(), "") else { return };
    connect(&at(&format!("nats://127.0.0.1:1,nats://{}", lab.place()))).await;
}

#[tokio::test]
async fn an_nkey_of_the_script_opens_and_another_is_refused() {
    let Some(_) = program() else { return };
    let folder = Folder::new();
    let make = |name: &str| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/nats/keys.sh");
        let made = std::process::Command::new("sh")
            .args([script, "nkey", name])
            .current_dir(folder.path())
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        (String::from_utf8_lossy(&made.stdout).trim().to_owned(), said)
    };
    let (public, said) = make("own.seed");
    if said.contains("openssl: not found") {
        eprintln!("skipped: no openssl was found");
        return;
    }
    let (_, _) = make("other.seed");
    assert!(public.starts_with('U') && public.len() == 56, "{public}: {said}");
    let seed = |name| Auth::Nkey(Secret::read(&folder.path().join(name)).expect("a seed"));
    let (own, other) = (seed("own.seed"), seed("other.seed"));
    let config = format!("authorization {{ users: [{{nkey: {public}}}] }}");
    let Some(lab) = Lab::start(folder, &config) else { return };
    connect(&lab.settings().identified(own)).await;
    let said = refusal(&lab.settings().identified(other)).await;
    assert!(said.ends_with("does not accept this nkey; its public part must be a user of the server"), "{said}");
    let said = refusal(&lab.settings().identified(Auth::Nkey(Secret::new("s3cr3t")))).await;
    assert!(said.ends_with("the seed of the nkey is none; it begins with `SU`"), "{said}");
    let said = refusal(&lab.settings().identified(Auth::Creds(Secret::new("s3cr3t")))).await;
    assert!(said.contains("the credentials file is none: "), "{said}");
}

/// A server that encrypts, with the certificates of the project's own script.
fn encrypted(folder: Folder, verify: bool) -> Option<Lab> {
    let config = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: {verify} }}",
        folder.key("server.pem"),
        folder.key("server.key"),
        folder.key("ca.pem"),
    );
    Lab::start(folder, &config)
}

fn trusting(lab: &Lab) -> ConnectSettings {
    let mut settings = lab.settings();
    settings.tls.ca = Some(lab.folder().key("ca.pem"));
    settings.tls.require = true;
    settings
}

#[tokio::test]
async fn a_certificate_is_trusted_by_its_authority_alone() {
    let (folder, others) = (Folder::new(), Folder::new());
    if !folder.keys(7, &["127.0.0.1", "localhost"]) || !others.keys(7, &["127.0.0.1"]) {
        return;
    }
    let Some(lab) = encrypted(folder, false) else { return };
    connect(&trusting(&lab)).await;
    let mut wrong = trusting(&lab);
    wrong.tls.ca = Some(others.key("ca.pem"));
    let said = refusal(&wrong).await;
    assert!(said.contains("signed by an authority that is not trusted here; name its file with --nats-ca"), "{said}");
    let said = refusal(&lab.settings()).await;
    assert!(said.contains("name its file with --nats-ca"), "the system's authorities do not know it: {said}");
}

#[tokio::test]
async fn a_certificate_for_another_name_or_one_that_is_over_is_refused() {
    let folder = Folder::new();
    if !folder.keys(7, &["lab.example"]) {
        return;
    }
    let Some(lab) = encrypted(folder, false) else { return };
    let said = refusal(&trusting(&lab)).await;
    assert!(
        said.contains("certificate is for another name than this URL's: ") && said.contains("lab.example"),
        "{said}"
    );

    let folder = Folder::new();
    // the authority lasts, the server's certificate ends as it begins
    folder.keys(7, &["127.0.0.1"]);
    std::fs::remove_file(folder.key("server.key")).expect("a key");
    folder.keys(0, &["127.0.0.1"]);
    let Some(lab) = encrypted(folder, false) else { return };
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let said = refusal(&trusting(&lab)).await;
    assert!(said.ends_with("certificate has expired; make a new one, or set this machine's clock right"), "{said}");
}

#[tokio::test]
async fn a_server_may_ask_for_a_certificate() {
    let (folder, others) = (Folder::new(), Folder::new());
    if !folder.keys(7, &["127.0.0.1"]) || !others.keys(7, &["127.0.0.1"]) {
        return;
    }
    let Some(lab) = encrypted(folder, true) else { return };
    let shown = |from: &Folder| {
        let mut settings = trusting(&lab);
        settings.tls.client = Some((from.key("node.pem"), from.key("node.key")));
        settings
    };
    connect(&shown(lab.folder())).await;
    for settings in [trusting(&lab), shown(&others)] {
        let said = refusal(&settings).await;
        assert!(said.ends_with("a client certificate that it trusts; give --nats-cert and --nats-key"), "{said}");
    }
    // one that the same authority signed, and that ends as it begins
    std::fs::remove_file(lab.folder().key("node.key")).expect("a key");
    lab.folder().keys(0, &["127.0.0.1"]);
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let said = refusal(&shown(lab.folder())).await;
    assert!(said.contains("does not accept this client's certificate: it has expired; make a new one"), "{said}");
    let mut mixed = shown(lab.folder());
    mixed.tls.client = Some((lab.folder().key("node.pem"), lab.folder().key("viewer.key")));
    let said = refusal(&mixed).await;
    assert!(said.contains("--nats-cert and --nats-key do not fit each other"), "{said}");
}

#[tokio::test]
async fn encryption_that_was_asked_for_is_not_done_without() {
    let Some(lab) = Lab::start(Folder::new(), "") else { return };
    let said = refusal(&at(&format!("tls://{}", lab.place()))).await;
    assert!(said.ends_with("does not encrypt, and TLS was asked for; configure `tls` at the server"), "{said}");
}

#[tokio::test]
async fn jetstream_is_asked_for_and_its_absence_told() {
    let patience = crate::lab::PATIENCE;
    let Some(lab) = Lab::start(Folder::new(), "") else { return };
    let (nats, _) = connect(&lab.settings()).await;
    let why = nats.jetstream_state(patience).await.expect_err("it is off").to_string();
    assert!(
        why.ends_with("has no JetStream; start it with `-js`, or write `jetstream {}` into its configuration"),
        "{why}"
    );
    let folder = Folder::new();
    let config = format!("jetstream {{ store_dir: {:?} }}", folder.path().join("js"));
    let Some(lab) = Lab::start(folder, &config) else { return };
    let (nats, _) = connect(&lab.settings()).await;
    nats.jetstream_state(patience).await.expect("it is on");
}
